// Which elements the threads of the microbenchmarks look up: pure functions of thread and step, so
// that the host knows sums and pages.
#pragma once

#include <gpufs/device.hpp>

#include <apps/common/generator.hpp>

#include <cstdint>

namespace gpufs::apps::analytics {

/// consecutive  Neighbouring threads look up neighbouring elements.
/// random       Each look-up is of a random element.
/// page         All threads look up elements of the first page.
/// sweep        Each warp goes along elements of its own, 32 for each step.
/// reuse        `lanes` lanes of a warp share a random page for `uses` steps, then the next one.
/// zipf         Each warp draws a page for each step: few pages are drawn often.
enum class pattern { consecutive, random, page, sweep, reuse, zipf };

struct lookup_plan {
  pattern what;
  std::uint64_t seed;
  std::uint64_t elements;
  std::uint64_t page_elements;
  std::uint64_t threads;  ///< a multiple of 32
  std::uint64_t steps;    ///< look-ups of each thread
  std::uint64_t lanes;    ///< reuse: 1 to 32, a power of two
  std::uint64_t uses;     ///< reuse: 1 to steps
  /// zipf: `draw_count` pages, which warps draw in turn, in the memory of the side that calls.
  std::uint32_t const* draws = nullptr;
  std::uint64_t draw_count = 0;

  [[nodiscard]] __host__ __device__ constexpr std::uint64_t pages() const {
    return (elements + page_elements - 1) / page_elements;
  }

  /// The element that a thread looks up at a step.
  __host__ __device__ constexpr std::uint64_t element(std::uint64_t thread,
                                                      std::uint64_t step) const {
    std::uint64_t const lane = thread % 32;
    switch (what) {
      case pattern::consecutive: return (step * threads + thread) % elements;
      case pattern::random: return generate_below(seed, thread * steps + step, elements);
      case pattern::page:
        return (thread + step) % (page_elements < elements ? page_elements : elements);
      case pattern::sweep: return ((thread - lane) * steps + step * 32 + lane) % elements;
      case pattern::zipf:
        return in_page(draws[(thread / 32 * steps + step) % draw_count], thread, step);
      default: return reused(thread, step);
    }
  }

 private:
  __host__ __device__ constexpr std::uint64_t reused(std::uint64_t thread,
                                                     std::uint64_t step) const {
    std::uint64_t const turns = (steps + uses - 1) / uses;
    std::uint64_t const sharers = thread / lanes;  // those lanes have one number
    std::uint64_t const page = generate_below(seed, sharers * turns + step / uses, pages());
    return in_page(page, thread, step);
  }
  __host__ __device__ constexpr std::uint64_t in_page(std::uint64_t page, std::uint64_t thread,
                                                      std::uint64_t step) const {
    std::uint64_t const left = elements - page * page_elements;
    return page * page_elements + (thread + step) % (left < page_elements ? left : page_elements);
  }
};

}  // namespace gpufs::apps::analytics
