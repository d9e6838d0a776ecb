// What device code needs of the counters of descriptors.
#pragma once

namespace gpufs::handle {

struct file_count_row;

/// See gpufs/handle/file_counters.hpp.
struct file_counters_ref {
  /// file_counter_stripes for each place of a descriptor; null: descriptors do not count
  file_count_row* rows = nullptr;
};

}  // namespace gpufs::handle
