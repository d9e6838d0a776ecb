// Owns the shared copies of descriptors' records.
#pragma once

#include <gpufs/file/sizes.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class record_owner {
 public:
  record_owner(config const&, layout const&)
      : shares_(on_device<std::byte>(file::record_shares * file::record_share_bytes,
                                     "descriptors in use", lower_cache)),
        changes_(on_device<std::uint32_t>(1, "descriptors in use", lower_cache)),
        told_changes_(on_device<std::uint64_t>(1, "descriptors in use", lower_cache)) {}

  void fill(fs_ref& r) const {
    r.records = reinterpret_cast<file::record_share*>(shares_.data());
    r.file_changes = changes_.data();
    r.told_changes = told_changes_.data();
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const {
    return bytes_of(shares_, changes_, told_changes_);
  }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

 private:
  buffer<std::byte> shares_;
  buffer<std::uint32_t> changes_;
  buffer<std::uint64_t> told_changes_;
};

}  // namespace gpufs::owner
