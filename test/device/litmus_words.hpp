// Litmus shapes of words in GPU memory: settled stores, channels, shared records, versions of
// written files, and lines.
#pragma once

#include <gpufs/base/settled.hpp>
#include <gpufs/cache/line.hpp>
#include <gpufs/file/take_version.hpp>
#include <gpufs/ring/channel.hpp>

#include <test/device/litmus.hpp>

namespace gpufs::test {

template <class T>
buffer<T> zeroed_cells(std::uint64_t count) {
  buffer<T> b(count);
  b.fill_zero();
  return b;
}

__device__ inline atomic_ref<std::uint64_t, scope::device> litmus_ref(std::uint64_t& word) {
  return atomic_ref<std::uint64_t, scope::device>(word);
}

/// Message passing: two words are stored and settled, then a flag. Each is in a line of its own.
template <broken B>
struct settle_shape {
  struct alignas(128) line_of {
    std::uint64_t word;
  };
  line_of* first;
  line_of* second;
  line_of* flag;

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    if (random % 8 == 0) pause_at_random(random >> 8);
    std::uint64_t& x = first[at.lane_cell].word;
    std::uint64_t& y = second[at.lane_cell].word;
    auto const announced = litmus_ref(flag[at.lane_cell].word);
    std::uint64_t const n = announced.load(memory_order_relaxed) + 1;
    litmus_ref(x).store(n, memory_order_relaxed);
    litmus_ref(y).store(n, memory_order_relaxed);
    if (B != broken::writer) base::settle(x, y);
    announced.store(n, base::after_settling);
    ++counts.writes;
  }
  __device__ void read(litmus_place const& at, std::uint64_t, litmus_counts& counts) const {
    std::uint64_t const n = litmus_ref(flag[at.lane_cell].word).load(memory_order_acquire);
    std::uint64_t const y = litmus_ref(second[at.lane_cell].word).load(memory_order_relaxed);
    std::uint64_t const x = litmus_ref(first[at.lane_cell].word).load(memory_order_relaxed);
    ++counts.rounds;
    if (x < n || y < n) ++counts.forbidden;
  }
};
template <broken B = broken::no>
struct settle_cells {
  static constexpr bool by_warp = false;
  using line_of = typename settle_shape<B>::line_of;
  explicit settle_cells(unsigned cells) : lines(zeroed_cells<line_of>(cells * 3ull)) {}
  [[nodiscard]] settle_shape<B> shape() const {
    std::uint64_t const cells = lines.size() / 3;
    return {lines.data(), lines.data() + cells, lines.data() + 2 * cells};
  }
  static std::uint64_t end() { return 0; }
  buffer<line_of> lines;
};

/// Channels change hands without a release. What the last holder did is settled. Each holder must
/// find that, and the next sequence.
template <broken B>
struct channel_shape {
  fs_ref fs;
  std::uint64_t* notes;  ///< a line apart

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    if (random % 8 == 0) pause_at_random(random >> 8);
    handle::channel_pool_ref const& pool = fs.channels.page;
    ring::channel c;
    if (!(random / 8 % 2 == 0 ? ring::claim_channel(fs, pool, at.lane_cell, c)
                              : ring::try_channel(fs, pool, at.lane_cell, c)))
      return;
    std::uint64_t& note = notes[at.lane_cell * 16ull];
    ++counts.rounds;
    ++counts.writes;
    if (note + 1 != c.sequence) ++counts.forbidden;
    note = c.sequence;
    if (B != broken::writer) base::settle(note);
    ring::return_channel(pool, c, true, base::after_settling);
  }
  __device__ void read(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    write(at, random, counts);
  }
};
template <broken B = broken::no>
struct channel_cells {
  static constexpr bool by_warp = false;
  explicit channel_cells(unsigned cells)
      : states(zeroed_cells<ring::channel_state>(cells)),
        notes(zeroed_cells<std::uint64_t>(cells * 16ull)) {}
  [[nodiscard]] channel_shape<B> shape() const {
    fs_ref fs;
    fs.channels.page.states = states.data();
    fs.channels.page.count = static_cast<std::uint32_t>(states.size());
    return {fs, notes.data()};
  }
  static std::uint64_t end() { return 0; }
  buffer<ring::channel_state> states;
  buffer<std::uint64_t> notes;
};

/// A sequence lock: descriptors' records that callers share.
template <broken B>
struct record_shape {
  file::record_share* shares;
  static constexpr std::int32_t descriptor = 7;

  __device__ static file::used_file record(std::uint64_t number) {
    return {descriptor, static_cast<std::uint32_t>(number),     base::mix64(number),
            number * 5, static_cast<std::uint32_t>(number * 3), 0};
  }
  // share_record() without its waits.
  __device__ static void share_at_once(file::record_share& share, std::uint64_t number) {
    file::used_file const f = record(number);
    litmus_ref(share.generation).store(2 * number - 1, memory_order_relaxed);
    litmus_ref(share.fd_and_write_index)
        .store(static_cast<std::uint32_t>(f.fd) | std::uint64_t(f.write_index) << 32,
               memory_order_relaxed);
    litmus_ref(share.version).store(f.version, memory_order_relaxed);
    litmus_ref(share.size).store(f.size, memory_order_relaxed);
    litmus_ref(share.flags).store(f.flags, memory_order_relaxed);
    litmus_ref(share.generation).store(2 * number, memory_order_relaxed);
  }
  // take_shared_record() without its orders: the second look is issued with the fields' loads.
  __device__ static bool take_at_once(file::record_share& share, file::used_file& out) {
    std::uint64_t const before = litmus_ref(share.generation).load(memory_order_relaxed);
    std::uint64_t const name = litmus_ref(share.fd_and_write_index).load(memory_order_relaxed);
    out.version = litmus_ref(share.version).load(memory_order_relaxed);
    out.size = litmus_ref(share.size).load(memory_order_relaxed);
    out.flags = static_cast<std::uint32_t>(litmus_ref(share.flags).load(memory_order_relaxed));
    out.write_index = static_cast<std::uint32_t>(name >> 32);
    std::uint64_t const after = litmus_ref(share.generation).load(memory_order_relaxed);
    return before == after && before % 2 == 0 && before != 0;
  }

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    pause_at_random(random);
    file::record_share& share = shares[at.lane_cell];
    atomic_ref<std::uint32_t, scope::device> lock(share.lock);
    if (lock.exchange(1, memory_order_acquire) != 0) return;
    std::uint64_t const number = litmus_ref(share.begun).fetch_add(1, memory_order_relaxed) + 1;
    base::await_loads(static_cast<std::uint32_t>(number));
    if constexpr (B == broken::writer) {
      share_at_once(share, number);
    } else {
      file::share_record(share, number, record(number));
    }
    lock.store(0, base::after_settling);
    ++counts.writes;
  }
  __device__ void read(litmus_place const& at, std::uint64_t, litmus_counts& counts) const {
    file::record_share& share = shares[at.lane_cell];
    file::used_file f;
    if constexpr (B == broken::reader) {
      if (!take_at_once(share, f)) return;
    } else {
      if (file::take_shared_record(share, 0, descriptor, f) != file::shared_record::taken) return;
    }
    ++counts.rounds;
    file::used_file const whole = record(f.write_index);
    if (f.version != whole.version || f.size != whole.size || f.flags != whole.flags)
      ++counts.forbidden;
  }
};
template <broken B = broken::no>
struct record_cells {
  static constexpr bool by_warp = false;
  explicit record_cells(unsigned cells) : shares(zeroed_cells<file::record_share>(cells)) {}
  [[nodiscard]] record_shape<B> shape() const { return {shares.data()}; }
  static std::uint64_t end() { return 0; }
  buffer<file::record_share> shares;
};

/// Versions of written files: a caller that sees the version gets its size, not the next one's, and
/// sees a number of changes that has grown.
template <broken B>
struct version_shape {
  fs_ref fs;

  // adopt() without its orders.
  __device__ void adopt_at_once(file::shared_file& shared, file::used_file const& f) const {
    file::file_changes(fs).fetch_add(1, memory_order_relaxed);
    litmus_ref(shared.size).store(f.size, memory_order_relaxed);
    litmus_ref(shared.version).store(f.version, memory_order_relaxed);
  }
  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    pause_at_random(random);
    file::shared_file& shared = fs.writes.files[at.lane_cell];
    if (!file::try_close_gate(shared)) return;
    file::used_file f;
    f.version = litmus_ref(shared.version).load(memory_order_relaxed) + 1;
    f.size = f.version * 5;
    if constexpr (B == broken::writer) {
      adopt_at_once(shared, f);
    } else {
      file::adopt(fs, shared, f.version, f.size);
    }
    file::open_gate(shared);
    ++counts.writes;
  }
  __device__ void read(litmus_place const& at, std::uint64_t, litmus_counts& counts) const {
    file::used_file f;
    f.write_index = at.lane_cell + 1;
    f.version = litmus_ref(fs.writes.files[at.lane_cell].version).load(memory_order_relaxed);
    // A descriptor that is none: the call ends if the version is another by now.
    if (file::load_shared(fs, f) != 0) return;
    std::uint32_t const changes = file::file_changes(fs).load(memory_order_relaxed);
    ++counts.rounds;
    // Each version of this file was one of the changes.
    bool const is_its_size = f.version == 0 || f.size == f.version * 5;
    if (!is_its_size || changes < f.version) ++counts.forbidden;
  }
};
template <broken B = broken::no>
struct version_cells {
  static constexpr bool by_warp = false;
  explicit version_cells(unsigned cells)
      : files(zeroed_cells<file::shared_file>(cells)), changes(zeroed_cells<std::uint32_t>(1)) {}
  [[nodiscard]] version_shape<B> shape() const {
    fs_ref fs;
    fs.writes.files = files.data();
    fs.file_changes = changes.data();
    return {fs};
  }
  static std::uint64_t end() { return 0; }
  buffer<file::shared_file> files;
  buffer<std::uint32_t> changes;
};

/// Lines: callers join and leave. Each gets a turn of its own, and the line is empty in the end.
struct line_shape {
  cache::line* lines;
  std::uint64_t* turns;  ///< for each line, the sum of a hash of its turns

  __device__ void write(litmus_place const& at, std::uint64_t, litmus_counts& counts) const {
    if (lane_id() == 0) {
      // More callers than may be in front at a time.
      unsigned const number = at.warp_cell / cache::front_turns;
      cache::line& line = lines[number];
      std::uint32_t const turn = cache::join_line(line);
      litmus_ref(turns[number]).fetch_add(base::mix64(turn), memory_order_relaxed);
      cache::leave_line(line, turn, true);
      ++counts.writes;
      ++counts.rounds;
    }
    __syncwarp();
  }
  __device__ void read(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    write(at, random, counts);
  }
};
struct line_cells {
  static constexpr bool by_warp = true;
  explicit line_cells(unsigned cells)
      : lines(zeroed_cells<cache::line>(cells)), turns(zeroed_cells<std::uint64_t>(cells)) {}
  [[nodiscard]] line_shape shape() const { return {lines.data(), turns.data()}; }
  [[nodiscard]] std::uint64_t end() const {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < lines.size(); ++i) {
      cache::line line;
      std::uint64_t sum = 0;
      lines.copy_to_host(&line, 1, i);
      turns.copy_to_host(&sum, 1, i);
      std::uint64_t const joined = line.state >> cache::joined_shift;
      std::uint64_t const left = line.state >> cache::left_shift & cache::turn_mask;
      for (std::uint64_t turn = 0; turn < joined; ++turn) sum -= base::mix64(turn);
      wrong += joined != left || sum != 0 ? 1 : 0;
    }
    return wrong;
  }
  buffer<cache::line> lines;
  buffer<std::uint64_t> turns;
};

}  // namespace gpufs::test
