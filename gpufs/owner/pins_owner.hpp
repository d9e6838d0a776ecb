// Owns the counts that device code keeps per frame: mappings, and the threads that keep a page.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>

#include <cstdint>
#include <vector>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class pins_owner {
 public:
  pins_owner(config const&, layout const& l)
      : mappings_(on_device<std::uint32_t>(l.frames, "mapped pages", lower_cache)),
        groups_(l.kept_groups),
        kept_(on_device<std::uint32_t>(groups_ * handle::kept_stride + l.frames, "kept pages",
                                       lower_cache)) {}

  void fill(fs_ref& r) const {
    r.pins = {mappings_.data(), kept_.data() + groups_ * handle::kept_stride, kept_.data(),
              groups_};
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(mappings_, kept_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

  /// How many mappings each frame has. No kernel may be running.
  [[nodiscard]] std::vector<std::uint32_t> mappings() const {
    std::vector<std::uint32_t> all(mappings_.size());
    mappings_.copy_to_host(all.data(), all.size());
    return all;
  }

 private:
  buffer<std::uint32_t> mappings_;
  std::uint32_t groups_;
  buffer<std::uint32_t> kept_;
};

}  // namespace gpufs::owner
