#include <apps/gpufs/random_rates.hpp>

#include <apps/common/run_report.hpp>
#include <apps/gpufs/random_pull.hpp>
#include <apps/gpufs/zipf.hpp>

#include <algorithm>

namespace gpufs::apps {

namespace {

bench_shape shape_for(study const& all, bool by_warp) {
  bench_shape s = all.shape();
  s.by_warp = by_warp;
  if (by_warp) s.threads = std::min(s.threads, most_threads_by_warp);
  return s;
}

}  // namespace

access_plan random_rates::plan_of(reading const& r, std::vector<std::uint32_t>& drawn) const {
  constexpr std::uint64_t unit = 4096, most_cold = 1 << 18;  // requests; storage does some 100,000 a second
  access_plan p;
  p.pattern = access_pattern::random;
  p.blocks = shape_for(all_, r.by_warp).readers();
  p.request = std::min(r.piece, all_.bytes());
  p.bytes = all_.bytes();
  p.seed = all_.options().seed;
  p.draws = std::max<std::uint64_t>(all_.bytes() / unit, 1);
  if (r.cold) p.draws = std::min(p.draws, most_cold);
  if (r.theta) {
    drawn = zipf_draws(p.bytes / p.request, *r.theta, p.draws, p.seed);
    p.drawn = drawn.data();
  }
  return p;
}

double random_rates::gread_GBps(reading const& r) const {
  constexpr std::uint64_t fewest_frames = 256, most_slots = 65536;
  std::vector<std::uint32_t> drawn;
  access_plan const p = plan_of(r, drawn);
  std::uint64_t const cache = std::max(std::min(all_.settings().cache_size, all_.bytes() / 8), fewest_frames * r.piece);
  config c = all_.settings_at(r.piece, 0, cache);
  c.context_slots = static_cast<std::uint32_t>(std::max<std::uint64_t>(c.context_slots, std::min(p.blocks, most_slots)));
  if (r.cold) {
    all_.file().drop_from_page_cache();
  } else {
    all_.file().load_into_page_cache(all_.bytes());
  }
  pass_result const done = read_once(all_.file(), c, p, shape_for(all_, r.by_warp), r.check);
  return gigabytes_per_second(p.payload(), done.seconds);
}

double random_rates::pull_GBps(reading const& r) const {
  std::vector<std::uint32_t> drawn;
  return measure_random_pull(all_.bytes(), plan_of(r, drawn));
}

}  // namespace gpufs::apps
