// Rates of random reads, for `gpufs bench ratios --set random`.
#pragma once

#include <apps/gpufs/access_plan.hpp>
#include <apps/gpufs/study.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace gpufs::apps {

/// Random pieces of a study's file, as many for each size of piece. All rates are in GB/s.
class random_rates {
 public:
  explicit random_rates(study const& all) : all_(all) {}

  struct reading {
    std::uint64_t piece = 4096;  ///< bytes of a request, and of a page
    bool by_warp = false;
    std::optional<double> theta{};  ///< Zipf's; else uniform
    bool cold = false;              ///< the OS page cache is emptied before
    bool check = false;             ///< bytes are compared with pread's, untimed
  };

  /// One pass by gread from an empty cache of at most an eighth of the file, without readahead. Throws as read_once().
  [[nodiscard]] double gread_GBps(reading const& r) const;

  /// The same pieces out of pinned memory.
  [[nodiscard]] double pull_GBps(reading const& r) const;

 private:
  [[nodiscard]] access_plan plan_of(reading const& r, std::vector<std::uint32_t>& drawn) const;

  study const& all_;
};

}  // namespace gpufs::apps
