// The rows of `gpufs bench nvme`: what each measures, what it is held against, and which figures it
// must reach.
#pragma once

#include <apps/bench/pattern_rows.hpp>

#include <string>
#include <vector>

namespace gpufs::apps {

enum class nvme_measure {
  commands,
  protocol,
  rand_4k,
  rand_512,
  file_4k,
  cold_4k,
  doorbells,
  pairs,
  gpuctl,
  gpuorder,
  drives
};

struct nvme_row {
  nvme_measure what;
  char const* key;
  char const* text;
  char const* counterpart;  ///< empty: there is none
  char const* unit;         ///< of the rate: M/s, GB/s, or empty for a number
  target_of about;
  double target;          ///< must be reached
  double stretch_target;  ///< shall be reached; 0: there is none
  /// The drives of the row are models.
  bool modelled = false;
};

[[nodiscard]] std::vector<nvme_row> const& nvme_rows();

/// Those with the keys, in that order; all without keys. Throws usage_error naming the rows.
[[nodiscard]] std::vector<nvme_row> chosen_nvme_rows(std::vector<std::string> const& only);

}  // namespace gpufs::apps
