// The litmus shape of write buffers. A host thread writes them back.
#pragma once

#include <gpufs/dirty/write_buffer.hpp>

#include <host-daemon/write_back/write_buffers.hpp>

#include <test/device/litmus_host.hpp>

namespace gpufs::test {

inline constexpr unsigned small_buffer_shift = 6;
inline constexpr unsigned small_buffer = 1u << small_buffer_shift;

GPUFS_HOST_DEVICE inline std::uint64_t buffer_word(std::uint64_t sequence, std::uint64_t k) {
  return base::mix64(sequence) + k;
}

/// Store buffering: the device stores busy and loads `written`, the host stores locked and loads
/// `posted`. At least one sees the other, so the host never reads bytes that are being stored.
template <broken B>
struct buffer_shape {
  fs_ref fs;

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    if (lane_id() == 0) {
      std::uint32_t const b = at.warp_cell;
      if (random % 4 == 0) pause_at_random(random >> 8);
      if (open(b)) {
        dirty::buffer_state const& s = fs.writes.buffers[b];
        auto* const words = reinterpret_cast<std::uint64_t*>(dirty::buffer_bytes(fs, b));
        for (unsigned k = 0; k < small_buffer / 8; ++k) words[k] = buffer_word(s.sequence + 1, k);
        dirty::add_range(fs, b, {0, small_buffer});
        dirty::post_buffer(fs, b);
        ++counts.writes;
        ++counts.rounds;
      }
    }
    __syncwarp();
  }
  // The host is the other side.
  __device__ void read(litmus_place const&, std::uint64_t random, litmus_counts&) const {
    pause_at_random(random);
  }

 private:
  __device__ bool open(std::uint32_t b) const {
    if constexpr (B == broken::writer) {  // the two accesses that decide, without their order
      dirty::buffer_state& s = fs.writes.buffers[b];
      if (!dirty::is_clean(fs, b, s.sequence)) {
        dirty::posted_word(fs, b).store(s.sequence << rpc::posted_shift | rpc::posted_busy,
                                        memory_order_relaxed);
        std::uint64_t const seen = dirty::written_word(fs, b).load(memory_order_relaxed);
        if ((seen & rpc::written_locked) == 0) return true;
        dirty::posted_word(fs, b).store(s.sequence << rpc::posted_shift, memory_order_release);
        return false;
      }
    }
    return dirty::open_buffer(fs, b, {0, small_buffer}) == dirty::open_result::opened;
  }
};

template <broken B = broken::no>
struct buffer_cells {
  static constexpr bool by_warp = true;
  explicit buffer_cells(unsigned cells)
      : headers(cells),
        posted(cells),
        written(cells),
        marks(rpc::mark_words(cells)),
        bytes(std::uint64_t(cells) << small_buffer_shift),
        states(cells),
        counters(dirty::write_counter_count),
        region{.headers = headers.data(),
               .posted = posted.data(),
               .written = written.data(),
               .marks = marks.data(),
               .bytes = bytes.data(),
               .count = cells,
               .page_shift = small_buffer_shift},
        buffers(region) {
    headers.fill_zero(), posted.fill_zero(), written.fill_zero(), marks.fill_zero();
    bytes.fill_zero(), states.fill_zero(), counters.fill_zero();
    host = std::make_unique<host_side>([this] { return write_back(); });
  }
  [[nodiscard]] buffer_shape<B> shape() const {
    fs_ref fs;
    fs.link.shared.writes = region;
    fs.cache.page_shift = small_buffer_shift;
    fs.writes.buffers = states.data();
    fs.writes.write_counters = counters.data();
    return {fs};
  }
  std::uint64_t end() {
    host->stop();
    return wrong;
  }

 private:
  bool write_back() {
    bool any = false;
    for (std::uint32_t i = 0; i < buffers.count(); ++i) any |= write_buffer(i);
    return any;
  }
  // As write_back::lock_buffer() and release_buffer() do.
  bool write_buffer(std::uint32_t i) {
    auto const ours = buffers.written(i);
    auto const before = ours.load(std::memory_order_relaxed);
    auto word = buffers.posted(i).load(std::memory_order_acquire);
    if (word >> rpc::posted_shift == before >> rpc::written_shift || (word & rpc::posted_busy) != 0)
      return false;
    ours.store(before | rpc::written_locked, std::memory_order_seq_cst);
    word = buffers.posted(i).load(std::memory_order_seq_cst);
    if ((word & rpc::posted_busy) != 0) {
      ours.store(before, std::memory_order_release);
      return false;
    }
    auto const sequence = word >> rpc::posted_shift;
    auto const* const words = reinterpret_cast<std::uint64_t const*>(buffers.bytes(i));
    for (std::uint64_t k = 0; k < small_buffer / 8; ++k)
      wrong += words[k] != buffer_word(sequence, k) ? 1 : 0;
    wrong += buffers.header(i).ranges != 1 ? 1 : 0;
    ours.store(sequence << rpc::written_shift, std::memory_order_seq_cst);
    return true;
  }

  pinned_buffer<rpc::buffer_header> headers;
  pinned_buffer<std::uint64_t> posted;
  pinned_buffer<std::uint64_t> written;
  pinned_buffer<std::uint64_t> marks;
  pinned_buffer<std::byte> bytes;
  buffer<dirty::buffer_state> states;
  buffer<std::uint32_t> counters;
  rpc::write_region region;
  daemon::write_buffers buffers;
  std::uint64_t wrong = 0;
  std::unique_ptr<host_side> host;  // last, so that it ends first
};

}  // namespace gpufs::test
