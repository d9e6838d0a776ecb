#include <apps/harness/verify.hpp>

#include <utility>

namespace gpufs::apps {

namespace {

verdict::level looked_at(std::string wrong) { return {true, std::move(wrong)}; }

void add_outputs(verdict& v, session& s, host_outputs const& got, bool exact) {
  auto const by_hand = make_cpuio_loader(s.largest_file(), false);
  s.run(*by_hand);
  v.cross_mode = looked_at(difference(got, s.outputs(), exact));
  mapped_inputs const maps = s.data().map();
  v.reference = looked_at(s.application().check(maps.view(), got));
}

}  // namespace

std::string verdict::text() const {
  std::string all;
  for (auto const& [name, l] : {std::pair{"integrity", &integrity},
                                {"cross-mode", &cross_mode},
                                {"reference", &reference}}) {
    if (!l->wrong.empty()) return std::string(name) + ": " + l->wrong;
    if (l->done) all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

verdict verify(session& s) {
  verdict v;
  v.integrity = looked_at(s.integrity());
  add_outputs(v, s, s.outputs(), true);
  return v;
}

verdict verify_fused(session& s, gread_files& files, io_shape shape) {
  verdict v;
  s.run_fused(files, shape, true);
  v.integrity = looked_at(s.integrity_of(files));
  add_outputs(v, s, s.outputs(), false);
  return v;
}

verdict verify_host(session& s, host_outputs const& got) {
  verdict v;
  v.integrity = looked_at(s.data().changed());
  mapped_inputs const maps = s.data().map();
  v.reference = looked_at(s.application().check(maps.view(), got));
  return v;
}

}  // namespace gpufs::apps
