#include <apps/mapping/runs.hpp>

#include <cstddef>

namespace gpufs::apps::workloads {

one_run run_once(description const& d, setup const& of, way const& how) {
  one_run r;
  r.in = std::make_unique<session>(of, how);
  r.program = d.make(of);
  auto& clock = r.in->clock();
  clock.start();
  r.program->allocate(*r.in);
  r.result.allocation = clock.stop();
  clock.start();
  r.program->run(*r.in);
  r.result.seconds = clock.stop();
  for (std::size_t p = 0; p < phase_count; ++p) r.result.phases[p] = clock.seconds(phase(p));
  r.result.launches = r.in->launches();
  r.result.moved = r.in->statistics();
  return r;
}

}  // namespace gpufs::apps::workloads
