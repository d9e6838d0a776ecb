#include <apps/bench/random_pull.hpp>
#include <apps/bench/random_rates.hpp>
#include <apps/common/run_report.hpp>
#include <apps/harness/zipf.hpp>

#include <algorithm>

namespace gpufs::apps {

bench_shape random_rates::shape_of(reading const& r) const {
  bench_shape s = all_.shape();
  s.by_warp = r.by_warp;
  if (r.by_warp) s.threads = std::min(s.threads, most_threads_by_warp);
  return s;
}

access_plan random_rates::plan_of(reading const& r, std::vector<std::uint32_t>& drawn) const {
  constexpr std::uint64_t unit = 4096,
                          most_cold = 1 << 18;  // requests; storage does some 100,000 a second
  access_plan p;
  p.pattern = access_pattern::random;
  p.blocks = shape_of(r).readers();
  p.request = std::min(r.range, all_.bytes());
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

config random_rates::settings_of(reading const& r) const {
  constexpr std::uint64_t fewest_frames = 256, most_seats = 65536;
  std::uint64_t const page = r.page != 0 ? r.page : r.range;
  std::uint64_t const cache =
      std::max(std::min(all_.settings().cache_size, all_.bytes() / 8), fewest_frames * page);
  config c = all_.settings_at(page, 0, cache);
  c.seats = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(c.seats, std::min(shape_of(r).readers(), most_seats)));
  return c;
}

double random_rates::gread_GBps(reading const& r) const { return gread_pass(r).GBps(); }

pass_result random_rates::gread_pass(reading const& r) const {
  std::vector<std::uint32_t> drawn;
  access_plan const p = plan_of(r, drawn);
  if (r.cold) {
    all_.file().drop_from_page_cache();
  } else {
    all_.file().load_into_page_cache(all_.bytes());
  }
  return all_.gpufs_pass(settings_of(r), p, shape_of(r), r.check, !r.cold);
}

double random_rates::pull_GBps(reading const& r) const {
  std::vector<std::uint32_t> drawn;
  return measure_random_pull(all_.bytes(), plan_of(r, drawn));
}

}  // namespace gpufs::apps
