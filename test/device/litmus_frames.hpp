// Litmus shapes of frames: writers replace the page of a frame again and again. Readers load from
// it without a pin (peek.hpp), or with a pin that they give back without a fence (unpin_read).
#pragma once

#include <gpufs/cache/frame.hpp>
#include <gpufs/cache/peek.hpp>
#include <gpufs/io/read/quick_hits.hpp>

#include <test/device/litmus.hpp>

#include <cstring>
#include <vector>

namespace gpufs::test {

/// An element of 128 bits.
struct alignas(16) bits_128 {
  std::uint64_t low;
  std::uint64_t high;
  __device__ bool operator!=(bits_128 const& other) const {
    return low != other.low || high != other.high;
  }
};

inline constexpr std::uint64_t litmus_version = 1;
/// Pages repeat the bytes of this many.
inline constexpr std::uint64_t litmus_contents = 256;

/// Word `k` of a page. Bytes at one place of neighbouring pages differ, also single ones.
GPUFS_HOST_DEVICE inline std::uint64_t litmus_word(std::uint64_t page, std::uint64_t k) {
  std::uint64_t const all = 0x0101010101010101ull;
  return page % litmus_contents * all ^ base::mix64(k);
}
template <class T>
__device__ T litmus_element(std::uint64_t page, unsigned offset) {
  if constexpr (sizeof(T) == 16) {
    return {litmus_word(page, offset / 8), litmus_word(page, offset / 8 + 1)};
  } else {
    return static_cast<T>(litmus_word(page, offset / 8) >> offset % 8 * 8);
  }
}
/// More than any page here has, so that all elements are valid.
__device__ inline std::uint32_t litmus_valid(std::uint64_t page) {
  return 4096 + static_cast<std::uint32_t>(page % 1'000'003);
}

__device__ inline std::uint64_t page_of(cache::frame_header& h) {
  return atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
}

/// Frames with their headers, and nothing else of a page cache.
struct litmus_frames {
  litmus_frames(unsigned count, unsigned shift)
      : headers(count), bytes(std::uint64_t(count) << shift), page_shift(shift) {
    headers.fill_zero();
    bytes.fill_zero();
  }
  [[nodiscard]] handle::page_cache_ref ref() const {
    handle::page_cache_ref c;
    c.headers = headers.data();
    c.frames = bytes.data();
    c.frame_count = static_cast<std::uint32_t>(headers.size());
    c.page_shift = page_shift;
    return c;
  }
  buffer<cache::frame_header> headers;
  buffer<std::byte> bytes;
  std::uint32_t page_shift;
};

inline constexpr unsigned small_page_shift = 6;
inline constexpr unsigned small_page = 1u << small_page_shift;

/// Each lane replaces the page of its own frame by the next one, as a miss does: the bytes are
/// settled, then published without a fence.
template <broken B>
struct replaced_frame {
  handle::page_cache_ref cache;

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    std::uint32_t const frame = at.lane_cell;
    cache::frame_header& h = cache.headers[frame];
    pause_at_random(random);
    if (cache::claim(h) == cache::phase::evicting) return;
    std::uint64_t const page = page_of(h) + 1;
    cache::begin_fill(h, litmus_version, page);
    cache::settle_name(h);
    std::byte* const bytes = cache::frame_bytes(cache, frame);
    for (unsigned k = 0; k < small_page / 8; ++k)
      reinterpret_cast<std::uint64_t*>(bytes)[k] = litmus_word(page, k);
    if (B != broken::writer) base::settle_frame(bytes, 0, small_page, 1u << lane_id(), 0, 1);
    cache::publish(h, litmus_valid(page), base::after_settling);
    ++counts.writes;
  }
};

/// Elements are loaded without a pin, then the frame's state.
template <class T, broken B>
struct peek_shape : replaced_frame<B> {
  __device__ void read(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    auto const& c = this->cache;
    std::uint64_t const page = page_of(c.headers[at.lane_cell]);
    cache::seen_frame seen;
    if (!cache::see_frame(c, at.lane_cell, litmus_version, page, seen)) return;
    unsigned const offset = static_cast<unsigned>(random >> 32) % (small_page / sizeof(T)) *
                            static_cast<unsigned>(sizeof(T));
    if (offset + sizeof(T) > seen.valid) return;  // as array does; `valid` must have been loaded
    if constexpr (!on_gpu) static_cast<void>(page_of(*seen.header));  // may be preempted here
    std::uint32_t mark = 0;
    T const value = cache::load_now<T>(seen.bytes + offset, mark);
    bool there = false;
    if constexpr (B == broken::reader) {  // still_there() without await_loads()
      std::uint64_t const now = cache::frame_state(*seen.header).load(memory_order_relaxed);
      there = (now ^ seen.state) >> cache::phase_shift == 0;
    } else {
      there = cache::still_there(seen.header, seen.state, mark);
    }
    if (!there) return;
    ++counts.rounds;
    if (value != litmus_element<T>(page, offset) || seen.valid != litmus_valid(page))
      ++counts.forbidden;
  }
};

/// An element is loaded under a pin, as by load_element(). The pin goes when the value is there.
template <class T, broken B>
struct unpin_shape : replaced_frame<B> {
  __device__ void read(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    auto const& c = this->cache;
    cache::frame_header& h = c.headers[at.lane_cell];
    pause_at_random(random);
    bool const ready = cache::phase_of(cache::pin(h)) == cache::phase::ready;
    if (!ready) {
      cache::unpin_read(h);
      return;
    }
    std::uint64_t const page = page_of(h);
    std::uint32_t const valid = cache::valid_bytes(h);
    base::await_loads(base::mark_of(page) | base::mark_of(valid));
    unsigned const offset = static_cast<unsigned>(random >> 32) % (small_page / sizeof(T)) *
                            static_cast<unsigned>(sizeof(T));
    std::byte const* const from = cache::frame_bytes(c, at.lane_cell) + offset;
    T value;
    if constexpr (B == broken::reader) {  // the pin goes while the load is under way
      std::uint32_t mark = 0;
      value = cache::load_now<T>(from, mark);
    } else {
      std::memcpy(&value, __builtin_assume_aligned(from, alignof(T)), sizeof(T));
      base::await_loads(cache::mark_of_object(value));
    }
    cache::unpin_read(h);
    ++counts.rounds;
    if (value != litmus_element<T>(page, offset) || valid != litmus_valid(page)) ++counts.forbidden;
  }
};

/// Cells of both shapes.
template <class Shape>
struct frame_cells {
  static constexpr bool by_warp = false;
  explicit frame_cells(unsigned cells) : frames(cells, small_page_shift) {}
  [[nodiscard]] Shape shape() const { return Shape{{frames.ref()}}; }
  static std::uint64_t end() { return 0; }
  litmus_frames frames;
};
template <class T, broken B = broken::no>
using peek_cells = frame_cells<peek_shape<T, B>>;
template <class T, broken B = broken::no>
using unpin_cells = frame_cells<unpin_shape<T, B>>;

inline constexpr unsigned pulled_page_shift = 9;
inline constexpr unsigned pulled_page = 1u << pulled_page_shift;

/// Warps pull pages from host memory into frames, settle them across lanes, and publish. Other
/// warps copy the page under a pin, as gread does, and give the pin back behind a __syncwarp().
/// Half of the copies are those of quick hits: the pin orders nothing, and the loads go to memory.
template <broken B>
struct pull_shape {
  handle::page_cache_ref cache;
  std::byte const* contents;
  std::byte* copies;  ///< a page for each warp of the grid

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    cache::frame_header& h = cache.headers[at.warp_cell];
    std::uint64_t page = 0;
    if (lane_id() == 0) {
      pause_at_random(random);
      if (cache::claim(h) != cache::phase::evicting) {
        page = page_of(h) + 1;
        cache::begin_fill(h, litmus_version, page);
        cache::settle_name(h);
      }
    }
    page = base::warp_broadcast(page);
    __syncwarp();  // all lanes come after lane 0's acquire
    if (page == 0) return;
    std::byte* const bytes = cache::frame_bytes(cache, at.warp_cell);
    base::warp_pull(bytes, contents + page % litmus_contents * pulled_page, 0, pulled_page,
                    pulled_page, {nullptr, 0, 0});
    if (B != broken::writer)
      base::settle_frame(bytes, 0, pulled_page, base::all_lanes, lane_id(), base::warp_size);
    __syncwarp();
    if (lane_id() != 0) return;
    cache::publish(h, litmus_valid(page), base::after_settling);
    ++counts.writes;
  }

  /// What a reader has copied. `page` 0: nothing, the frame was not ready.
  struct copied {
    std::uint64_t page = 0;
    std::uint32_t valid = 0;
  };

  /// Copies the page as read_hits() does.
  __device__ copied copy_pinned(cache::frame_header& h, std::byte* to,
                                std::byte const* from) const {
    copied c;
    if (lane_id() == 0) {
      if (cache::phase_of(cache::pin(h)) == cache::phase::ready) {
        c = {page_of(h), cache::valid_bytes(h)};
        base::await_loads(base::mark_of(c.valid));
      } else {
        cache::unpin_read(h);
      }
    }
    c.page = base::warp_broadcast(c.page);
    __syncwarp();  // all lanes come after lane 0's acquire
    if (c.page == 0) return c;
    base::warp_copy(to, from, pulled_page);
    __syncwarp();
    if (lane_id() == 0) cache::unpin_read(h);
    return c;
  }

  /// Copies the page as read_quick_hit() does: the pin orders nothing, and the loads go to memory.
  __device__ copied copy_quickly(cache::frame_header& h, std::byte* to,
                                 std::byte const* from) const {
    static_assert(pulled_page == base::warp_size * sizeof(uint4));
    std::uint64_t state = 0;
    if (lane_id() == 0) state = cache::pin_to_load(h);
    io::ask_for_bytes(from, pulled_page);
    bool const ready = cache::phase_of(base::warp_broadcast(state)) == cache::phase::ready;
    __syncwarp();  // all lanes come after the pin
    copied c;
    auto const take_name = [&] {
      c = {page_of(h), cache::valid_bytes(h)};
      return true;
    };
    if (ready && B == broken::reader) {  // loads by the L1, which may have an older page's bytes
      take_name();
      base::warp_copy(to, from, pulled_page);
    } else if (ready) {
      io::move_if<1>(reinterpret_cast<uint4*>(to) + lane_id(),
                     reinterpret_cast<uint4 const*>(from) + lane_id(), true, take_name);
    }
    __syncwarp();  // all lanes have read before the pin goes
    if (lane_id() == 0) cache::unpin_read(h);
    return c;
  }

  __device__ void read(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    cache::frame_header& h = cache.headers[at.warp_cell];
    if (lane_id() == 0) pause_at_random(random);
    __syncwarp();
    std::byte* const copy = copies + std::uint64_t(base::warp_number()) * pulled_page;
    std::byte const* const from = cache::frame_bytes(cache, at.warp_cell);
    bool const is_quick = B == broken::reader || (base::warp_broadcast(random) >> 40 & 1) != 0;
    auto const [page, valid] = is_quick ? copy_quickly(h, copy, from) : copy_pinned(h, copy, from);
    if (page == 0) return;
    __syncwarp();
    auto const* const words = reinterpret_cast<std::uint64_t const*>(copy);
    unsigned wrong = lane_id() == 0 && valid != litmus_valid(page) ? 1 : 0;
    for (unsigned k = lane_id(); k < pulled_page / 8; k += base::warp_size)
      wrong += words[k] != litmus_word(page, k) ? 1 : 0;
    counts.rounds += lane_id() == 0 ? 1 : 0;
    counts.forbidden += wrong;
    __syncwarp();  // the next copy overwrites what other lanes compare
  }
};

template <broken B = broken::no>
struct pull_cells {
  static constexpr bool by_warp = true;
  explicit pull_cells(unsigned cells)
      : frames(cells, pulled_page_shift),
        contents(litmus_contents * pulled_page),
        copies(std::uint64_t(cells) * 2 * warps_per_role_set * pulled_page) {
    auto* const words = reinterpret_cast<std::uint64_t*>(contents.data());
    for (std::uint64_t page = 0; page < litmus_contents; ++page)
      for (std::uint64_t k = 0; k < pulled_page / 8; ++k)
        words[page * (pulled_page / 8) + k] = litmus_word(page, k);
  }
  [[nodiscard]] pull_shape<B> shape() const {
    return {frames.ref(), contents.data(), copies.data()};
  }
  static std::uint64_t end() { return 0; }
  litmus_frames frames;
  pinned_buffer<std::byte> contents;
  buffer<std::byte> copies;
};

}  // namespace gpufs::test
