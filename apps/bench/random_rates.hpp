// Rates of random reads, for `gpufs bench ratios --set random`. Other ways to read random chunks
// use the same requests.
#pragma once

#include <apps/bench/access_plan.hpp>
#include <apps/bench/study.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace gpufs::apps {

/// Random chunks of the file of a study, equally many for each chunk size. Rates are in GB/s.
class random_rates {
 public:
  explicit random_rates(study const& all) : all_(all) {}

  struct reading {
    std::uint64_t range = 4096;  ///< bytes of a request
    std::uint64_t page = 0;      ///< bytes of a page; 0: those of a range
    bool by_warp = false;
    std::optional<double> theta{};  ///< Zipf's; else uniform
    bool cold = false;              ///< the OS page cache is emptied before
    bool check = false;             ///< bytes are compared with pread's, untimed
  };

  /// One pass by gread from an empty cache of at most an eighth of the file, without readahead.
  /// Throws as read_once().
  [[nodiscard]] double gread_GBps(reading const& r) const;

  /// The same pass.
  [[nodiscard]] pass_result gread_pass(reading const& r) const;

  /// The same ranges out of pinned memory.
  [[nodiscard]] double pull_GBps(reading const& r) const;

  /// What is read; `drawn` keeps what the plan points to.
  [[nodiscard]] access_plan plan_of(reading const& r, std::vector<std::uint32_t>& drawn) const;
  [[nodiscard]] bench_shape shape_of(reading const& r) const;

  /// The cache of gread_GBps(), and a seat for each reader.
  [[nodiscard]] config settings_of(reading const& r) const;

 private:
  study const& all_;
};

}  // namespace gpufs::apps
