// Owns the write buffers, and what device code keeps of files that are written.
#pragma once

#include <gpufs/cache/geometry.hpp>
#include <gpufs/dirty/sizes.hpp>
#include <gpufs/file/sizes.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/rpc/write_format.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class write_owner {
 public:
  write_owner(config const& c, layout const& l)
      : headers_(pinned<rpc::buffer_header>(l.write_buffers, "write buffers", lower_writes)),
        words_(
            pinned<std::uint64_t>(l.write_buffers == 0 ? 0 : 2 * l.write_buffers + c.max_open_files,
                                  "write buffers", lower_writes)),
        marks_(
            pinned<std::uint64_t>(rpc::mark_words(l.write_buffers), "write buffers", lower_writes)),
        bytes_(pinned<std::byte>(l.write_buffers * c.page_size, "write buffers", lower_writes)),
        states_(on_device<std::byte>(l.write_buffers * dirty::buffer_state_bytes, "write buffers",
                                     lower_writes)),
        frame_buffers_(on_device<std::uint32_t>(l.write_buffers == 0 ? 0 : l.frames,
                                                "write buffers", lower_writes)),
        hand_count_(l.write_hands),
        hands_(on_device<std::uint64_t>(hand_count_ * handle::hand_stride, "write buffers",
                                        lower_writes)),
        line_(on_device<cache::line>(1, "write buffers", lower_writes)),
        files_(on_device<std::byte>(
            l.write_buffers == 0 ? 0 : c.max_open_files * file::shared_file_bytes,
            "files that are written", lower_files)),
        counters_(on_device<std::uint32_t>(l.write_buffers == 0 ? 0 : dirty::write_counter_count,
                                           "write counters", lower_cache)),
        page_shift_(static_cast<std::uint32_t>(std::countr_zero(c.page_size))) {}

  void fill(fs_ref& r) const {
    if (headers_.size() == 0) return;
    rpc::write_region& w = r.link.shared.writes;
    w.headers = headers_.data();
    w.posted = words_.data();
    w.written = words_.data() + headers_.size();
    w.errors = words_.data() + 2 * headers_.size();
    w.marks = marks_.data();
    w.bytes = bytes_.data();
    w.count = headers_.size();
    w.page_shift = page_shift_;
    r.writes = {reinterpret_cast<dirty::buffer_state*>(states_.data()),
                frame_buffers_.data(),
                hands_.data(),
                hand_count_,
                line_.data(),
                reinterpret_cast<file::shared_file*>(files_.data()),
                counters_.data()};
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const {
    return bytes_of(states_, frame_buffers_, hands_, line_, files_, counters_);
  }
  [[nodiscard]] std::uint64_t pinned_bytes() const {
    return bytes_of(headers_, words_, marks_, bytes_);
  }

 private:
  pinned_buffer<rpc::buffer_header> headers_;
  pinned_buffer<std::uint64_t> words_;  ///< posted, written, and the files' errors
  pinned_buffer<std::uint64_t> marks_;
  pinned_buffer<std::byte> bytes_;
  buffer<std::byte> states_;
  buffer<std::uint32_t> frame_buffers_;
  std::uint32_t hand_count_;
  buffer<std::uint64_t> hands_;
  buffer<cache::line> line_;
  buffer<std::byte> files_;
  buffer<std::uint32_t> counters_;
  std::uint32_t page_shift_;
};

}  // namespace gpufs::owner
