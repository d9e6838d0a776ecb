// Microbenchmarks of look-ups in an array that lies in a file (BaM paper, figures 6 and 8).
#pragma once

#include <gpufs/config.hpp>

#include <apps/analytics/lookups/pattern.hpp>
#include <apps/analytics/outcome.hpp>
#include <apps/analytics/run_options.hpp>
#include <apps/harness/data_set.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace gpufs::apps::analytics {

/// What all variants work on.
struct lookup_setup {
  data_file const* file;
  lookup_plan plan;
  launch_shape shape;
  config settings;
  bool is_hot;   ///< the same look-ups come once before the time
  bool is_warm;  ///< the OS page cache has the file: windows are registered before a run
  drive_set drives = {};
};

/// One variant, with the memory that it needs.
class lookups {
 public:
  virtual ~lookups() = default;

  /// Stores the sum of all elements that are looked up, modulo 2^64. Throws std::system_error or
  /// std::runtime_error naming the file, or device_error.
  [[nodiscard]] virtual run_outcome run(std::uint64_t& sum) = 0;
};

/// Throws device_error. Throws usage_error for managed on the emulated device, and for pointer if
/// the cache has less frames than threads run: each of them holds a page. `s` outlives the result.
[[nodiscard]] std::unique_ptr<lookups> make_lookups(variant how, lookup_setup const& s);

/// Throws usage_error unless each thread that runs can hold a page.
void require_frames(lookup_setup const& s);

/// What the host knows about a plan.
struct lookup_facts {
  std::uint64_t sum;    ///< of the elements generate(seed, i)
  std::uint64_t pages;  ///< that are touched
};

[[nodiscard]] lookup_facts facts_of(lookup_plan const& plan);

/// Compares a run with the facts. An empty cache that holds all pages gets each of them once.
/// Returns what is wrong, or an empty text.
[[nodiscard]] std::string check_run(lookup_setup const& s, lookup_facts const& facts,
                                    run_outcome const& r, std::uint64_t sum);

}  // namespace gpufs::apps::analytics
