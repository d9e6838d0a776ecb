// Owns the states of the channels of all kinds, the gate of pulls, and the requests ahead.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/ring/ahead_page.hpp>
#include <gpufs/ring/channel_state.hpp>

#include <bit>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class channel_owner {
 public:
  channel_owner(config const& c, layout const& l)
      : states_(on_device<ring::channel_state>(l.channels, "channels", lower_staging)),
        counts_(on_device<std::uint32_t>(2 * apart, "the pull gate", lower_cache)),
        // At most a quarter of the page channels: gread_async has a half.
        ahead_(on_device<ring::ahead_page>(std::bit_floor(l.page_channels / 4), "requests ahead",
                                           lower_staging)),
        sizes_(l),
        pulls_in_flight_(c.pulls_in_flight) {}

  void fill(fs_ref& r) const {
    std::uint64_t const page = sizes_.control_channels;
    std::uint64_t const chunk = page + sizes_.page_channels;
    std::uint64_t const pages_begin = sizes_.control_channels * control_piece;
    r.channels.control = {states_.data(), 0, static_cast<std::uint32_t>(page), 0, control_piece};
    r.channels.page = {states_.data() + page, static_cast<std::uint32_t>(page),
                       static_cast<std::uint32_t>(sizes_.page_channels), pages_begin,
                       sizes_.page_piece};
    r.channels.page.spacing = 32;  // as many as a warp can have
    r.channels.pulling = counts_.data();
    r.channels.async = counts_.data() + apart;
    r.channels.most_pulling = pulls_in_flight_;
    r.ahead = {ahead_.data(), static_cast<std::uint32_t>(ahead_.size())};
    if (sizes_.chunk_channels == 0) return;
    r.prefetch.channels = {states_.data() + chunk, static_cast<std::uint32_t>(chunk),
                           static_cast<std::uint32_t>(sizes_.chunk_channels),
                           pages_begin + sizes_.page_channels * sizes_.page_piece,
                           sizes_.chunk_piece};
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(states_, counts_, ahead_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

 private:
  /// Words from one counter to the next: each has a line of its own.
  static constexpr unsigned apart = 16;

  buffer<ring::channel_state> states_;
  buffer<std::uint32_t> counts_;  ///< warps that pull, then channels of gread_async
  buffer<ring::ahead_page> ahead_;
  layout sizes_;
  std::uint32_t pulls_in_flight_;
};

}  // namespace gpufs::owner
