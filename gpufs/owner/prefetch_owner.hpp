// Owns the state of each seat's prefetcher.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>

#include <prefetcher/readahead_state.hpp>

#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class prefetch_owner {
 public:
  prefetch_owner(config const& c, layout const& l)
      : states_(on_device<prefetch::readahead_state>(l.chunk_channels == 0 ? 0 : c.seats,
                                                     "prefetch buffers", lower_seats)),
        chunk_bytes_(l.chunk_bytes),
        depth_(c.prefetch_depth),
        automatic_(c.prefetch_size == prefetch_automatic) {}

  void fill(fs_ref& r) const {
    if (states_.size() == 0) return;
    r.prefetch.states = states_.data();
    r.prefetch.chunk_bytes = chunk_bytes_;
    r.prefetch.depth = depth_;
    r.prefetch.automatic = automatic_;
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(states_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

 private:
  buffer<prefetch::readahead_state> states_;
  std::uint64_t chunk_bytes_;
  std::uint32_t depth_;
  bool automatic_;
};

}  // namespace gpufs::owner
