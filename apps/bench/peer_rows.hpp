// The ways to bring a file, or records of it, to a GPU that `gpufs bench peers` compares.
#pragma once

#include <apps/bench/study.hpp>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace gpufs::apps {

/// A way that is not installed here, or needs another device. what() says so.
struct not_here : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Random records of the file of a study.
struct peer_records {
  std::uint64_t bytes = 4096;          ///< of a record
  std::vector<std::uint32_t> numbers;  ///< which ones are read, in this order
};

/// What the ways read. Each pass is checked if the study checks.
struct peer_work {
  study const& all;
  peer_records const& records;
};

struct peer_row {
  char const* key;
  char const* what;
  double (*stream)(peer_work const& w);   ///< GB/s of the whole file; null: there is none
  double (*records)(peer_work const& w);  ///< GB/s of the records; null: there is none
};

/// The first is gpufs. A way throws not_here; usage_error, device_error, std::system_error, or
/// std::runtime_error if it fails or brings wrong bytes.
[[nodiscard]] std::vector<peer_row> const& peer_rows();

}  // namespace gpufs::apps
