// Owns the counters of descriptors.
#pragma once

#include <gpufs/file_statistics.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/file_count_row.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <array>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class file_counter_owner {
 public:
  file_counter_owner(config const& c, layout const&)
      : rows_(on_device<handle::file_count_row>(
            c.file_counters ? std::uint64_t(c.max_open_files) * handle::file_counter_stripes : 0,
            "counters of files", lower_files)) {}

  void fill(fs_ref& r) const { r.file_counters.rows = counts() ? rows_.data() : nullptr; }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(rows_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

  /// Whether descriptors count.
  [[nodiscard]] bool counts() const { return rows_.size() != 0; }

  /// What has been counted so far for a descriptor of this filesystem. Descriptors count.
  [[nodiscard]] file_statistics of(int fd) const {
    std::array<handle::file_count_row, handle::file_counter_stripes> all;
    rows_.copy_to_host(all.data(), all.size(),
                       std::uint64_t(rpc::descriptor_index(fd)) * all.size());
    file_statistics s;
    for (auto const& row : all) {
      if (row.tag != rpc::descriptor_generation(fd)) continue;  // an earlier descriptor's
#define GPUFS_ADD(name, help) \
  s.name += row.value[static_cast<unsigned>(handle::file_counter::name)];
      GPUFS_FILE_COUNTERS(GPUFS_ADD)
#undef GPUFS_ADD
    }
    return s;
  }

 private:
  buffer<handle::file_count_row> rows_;
};

}  // namespace gpufs::owner
