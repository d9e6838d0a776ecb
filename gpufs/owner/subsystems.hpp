// The subsystems of a filesystem, each an owner of the memory that its part of fs_ref names.
#pragma once

#include <gpufs/owner/block_files_owner.hpp>
#include <gpufs/owner/channel_owner.hpp>
#include <gpufs/owner/counter_owner.hpp>
#include <gpufs/owner/file_counter_owner.hpp>
#include <gpufs/owner/link_owner.hpp>
#include <gpufs/owner/page_cache_owner.hpp>
#include <gpufs/owner/pins_owner.hpp>
#include <gpufs/owner/prefetch_owner.hpp>
#include <gpufs/owner/record_owner.hpp>
#include <gpufs/owner/seats_owner.hpp>
#include <gpufs/owner/window_table_owner.hpp>
#include <gpufs/owner/write_owner.hpp>

#include <cstdint>

namespace gpufs::owner {

/// Owners that are made together, and asked together.
template <class... Owner>
class owners : private Owner... {
 public:
  owners(config const& c, layout const& l) : Owner(c, l)... {}

  /// One of them.
  template <class One>
  [[nodiscard]] One const& get() const {
    return *this;
  }

  [[nodiscard]] fs_ref ref() const {
    fs_ref r;
    (get<Owner>().fill(r), ...);
    return r;
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const {
    return (get<Owner>().metadata_bytes() + ...);
  }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return (get<Owner>().pinned_bytes() + ...); }
};

/// A subsystem has a constructor from (config, layout), which throws device_error naming the
/// setting to lower, and
///   void fill(fs_ref&) const            sets its part of the handle
///   uint64_t metadata_bytes() const     GPU memory other than pages and the twin of staging
///   uint64_t pinned_bytes() const       host memory that it has pinned
/// A new one is a class of its own, a place in this list, and a member of fs_ref.
using subsystems = owners<link_owner, channel_owner, block_files_owner, page_cache_owner,
                          pins_owner, seats_owner, prefetch_owner, write_owner, window_table_owner,
                          record_owner, counter_owner, file_counter_owner>;

}  // namespace gpufs::owner
