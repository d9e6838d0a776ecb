// Which file it is, whatever its names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpufs::daemon {

struct file_id {
  std::uint64_t device, inode;
  friend bool operator==(file_id const&, file_id const&) = default;
};
struct file_id_hash {
  static std::uint64_t mix(std::uint64_t device, std::uint64_t inode) noexcept {
    return (inode ^ device << 40 ^ device >> 24) * 0x9e3779b97f4a7c15ull;
  }
  std::size_t operator()(file_id const& f) const noexcept {
    return std::size_t(mix(f.device, f.inode));
  }
};

}  // namespace gpufs::daemon
