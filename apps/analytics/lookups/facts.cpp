#include <apps/analytics/lookups/lookups.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace gpufs::apps::analytics {

lookup_facts facts_of(lookup_plan const& plan) {
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::uint8_t> is_touched(plan.pages());
  // Relaxed throughout: a sum and flags, read after the threads have ended.
  parallel_ranges(plan.threads, 1 << 12, [&](std::uint64_t begin, std::uint64_t end) {
    std::uint64_t part = 0;
    for (std::uint64_t thread = begin; thread < end; ++thread) {
      for (std::uint64_t step = 0; step < plan.steps; ++step) {
        std::uint64_t const i = plan.element(thread, step);
        part += generate(plan.seed, i);
        std::atomic_ref(is_touched[i / plan.page_elements]).store(1, std::memory_order_relaxed);
      }
    }
    sum.fetch_add(part, std::memory_order_relaxed);
  });
  return {sum, static_cast<std::uint64_t>(std::ranges::count(is_touched, 1))};
}

void require_frames(lookup_setup const& s) {
  std::uint64_t const frames = s.settings.cache_size / s.settings.page_size;
  std::uint64_t const threads = std::uint64_t{s.shape.blocks} * s.shape.threads;
  if (frames >= threads) return;
  throw usage_error(
      fmt::format("--variant pointer: each of {} threads holds a page, and the cache has {}: needs "
                  "a larger --cache-size, or less --blocks",
                  threads, frames));
}

std::string check_run(lookup_setup const& s, lookup_facts const& facts, run_outcome const& r,
                      std::uint64_t sum) {
  if (sum != facts.sum) return fmt::format("the sum is {:#x}, not {:#x}", sum, facts.sum);
  if (!r.counters || s.is_hot || r.counters->evictions != 0) return {};
  // Elements that come out of registered windows, or alone, bring no page in.
  auto const without_page = r.counters->elements_straight + r.counters->elements_alone;
  if (without_page != 0 || r.counters->misses == facts.pages) return {};
  return fmt::format("{} pages were brought in, not {}", r.counters->misses, facts.pages);
}

}  // namespace gpufs::apps::analytics
