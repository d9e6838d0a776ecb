// The litmus shape of requests that are posted without a fence. A host thread answers them.
#pragma once

#include <gpufs/ring/channel.hpp>
#include <gpufs/ring/submit.hpp>

#include <host-daemon/serve/request_queue.hpp>

#include <test/device/litmus.hpp>

#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace gpufs::test {

/// A host thread that calls `turn` again and again until stop().
class host_side {
 public:
  explicit host_side(std::function<bool()> turn)
      : thread_([this, turn = std::move(turn)] {
          while (!stopped_.load(std::memory_order_relaxed))
            if (!turn()) std::this_thread::yield();
        }) {}
  ~host_side() { stop(); }
  host_side(host_side const&) = delete;
  host_side& operator=(host_side const&) = delete;
  void stop() {
    stopped_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

inline constexpr unsigned piece_bytes = 512;
inline constexpr unsigned piece_words = piece_bytes / 8;

/// Word `k` of the answer to a request, and of the data that came with one.
GPUFS_HOST_DEVICE inline std::uint64_t answer_word(rpc::request const& r, std::uint64_t k) {
  return base::mix64(std::uint64_t(r.channel) << 32 | r.sequence) + k;
}
GPUFS_HOST_DEVICE inline std::uint64_t sent_word(rpc::request const& r, std::uint64_t k) {
  return ~answer_word(r, k);
}

GPUFS_HOST_DEVICE inline rpc::request litmus_request(std::uint32_t channel,
                                                     std::uint32_t sequence) {
  rpc::request r;
  r.op = sequence % 64 == 0 ? rpc::operation::open : rpc::operation::read;
  r.channel = channel;
  r.sequence = sequence;
  r.file = static_cast<std::int32_t>(sequence * 3 >> 1);
  r.offset = base::mix64(sequence) & rpc::payload_mask;
  r.length = sequence * 5ull;
  r.staging = std::uint64_t(channel) * piece_bytes;
  r.argument[0] = sequence * 7ull;
  r.argument[1] = channel + 11ull * sequence;
  return r;
}

/// Warps take a channel, post a request, await the answer, pull it, and give the channel back, all
/// as gread does. One request in 64 carries data in staging, as gopen does.
template <broken B>
struct request_shape {
  fs_ref fs;
  std::byte* frames;  ///< piece_bytes for each warp of the grid

  __device__ void write(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    handle::channel_pool_ref const& pool = fs.channels.page;
    ring::channel c;
    std::uint32_t got = 0;
    if (lane_id() == 0) {
      bool const claims = random / 8 % 2 == 0;
      got = (claims ? ring::claim_channel(fs, pool, at.warp_cell, c)
                    : ring::try_channel(fs, pool, at.warp_cell, c))
                ? 1
                : 0;
      unsigned pause = 0;
      if (got == 0) backoff(pause);  // the holder waits for the host
    }
    if (base::warp_broadcast(got) == 0) return;
    c = {base::warp_broadcast(c.number), base::warp_broadcast(c.sequence)};
    __syncwarp();  // all lanes come after lane 0's acquire
    rpc::request const r = litmus_request(c.number, c.sequence);
    std::byte* const staging = ring::staging_bytes(fs, pool, c);
    if (r.op == rpc::operation::open) {
      for (unsigned k = lane_id(); k < piece_words; k += base::warp_size)
        reinterpret_cast<std::uint64_t*>(staging)[k] = sent_word(r, k);
      __syncwarp();
      ring::submit<ring::carries::staged_data>(fs, r);
    } else {
      ring::submit(fs, r);
    }
    bool answered = false;
    if (lane_id() == 0) static_cast<void>(ring::await(fs, c, answered));
    __syncwarp();
    take_answer(c, r, staging, answered, counts);
  }
  __device__ void read(litmus_place const& at, std::uint64_t random, litmus_counts& counts) const {
    write(at, random, counts);
  }

 private:
  // `answered` is lane 0's.
  __device__ void take_answer(ring::channel const& c, rpc::request const& r,
                              std::byte const* staging, bool answered,
                              litmus_counts& counts) const {
    std::uint64_t wrong = 0;
    if constexpr (B == broken::reader) {  // the channel goes back while the pull is under way
      auto const* const from = reinterpret_cast<unsigned long long const*>(staging);
      unsigned long long const value = __ldcv(from + lane_id());
      __syncwarp();
      if (lane_id() == 0) ring::return_channel(fs.channels.page, c, answered, base::after_settling);
      wrong = value != answer_word(r, lane_id()) ? 1 : 0;
    } else {
      std::byte* const frame = frames + std::uint64_t(base::warp_number()) * piece_bytes;
      base::warp_pull(frame, staging, 0, piece_bytes, piece_bytes, {nullptr, 0, 0});
      base::settle_frame(frame, 0, piece_bytes, base::all_lanes, lane_id(), base::warp_size);
      __syncwarp();
      if (lane_id() == 0) ring::return_channel(fs.channels.page, c, answered, base::after_settling);
      for (unsigned k = lane_id(); k < piece_words; k += base::warp_size)
        wrong += reinterpret_cast<std::uint64_t const*>(frame)[k] != answer_word(r, k) ? 1 : 0;
      __syncwarp();
    }
    counts.forbidden += wrong;
    if (lane_id() != 0) return;
    ++counts.rounds;
    ++counts.writes;
    if (!answered) ++counts.forbidden;
  }
};

template <broken B = broken::no>
struct request_cells {
  static constexpr bool by_warp = true;
  explicit request_cells(unsigned cells)
      : channels(cells),
        slots(std::bit_ceil(std::uint64_t(cells))),
        ring(slots),
        completions(cells),
        staging(std::uint64_t(cells) * piece_bytes),
        control(1),
        states(cells),
        tail(handle::tail_stride),
        frames(std::uint64_t(cells) * 2 * warps_per_role_set * piece_bytes),
        queue(ring.data(), slots, 1) {
    ring.fill_zero(), completions.fill_zero(), staging.fill_zero(), control.fill_zero();
    states.fill_zero(), tail.fill_zero();
    host = std::make_unique<host_side>([this] { return serve(); });
  }
  [[nodiscard]] request_shape<B> shape() const {
    fs_ref fs;
    fs.link.shared.ring = ring.data();
    fs.link.shared.slots = slots;
    fs.link.shared.completions = completions.data();
    fs.link.shared.channels = channels;
    fs.link.shared.staging = staging.data();
    fs.link.shared.control = control.data();
    fs.link.tails = tail.data();
    fs.link.timeout_ns = 60'000'000'000;
    fs.channels.page.states = states.data();
    fs.channels.page.count = channels;
    fs.channels.page.bytes = piece_bytes;
    return {fs, frames.data()};
  }
  std::uint64_t end() {
    host->stop();
    return wrong;
  }

 private:
  bool serve() {
    rpc::request taken[daemon::request_queue::most_at_once];
    std::size_t const count = queue.take(taken);
    for (std::size_t i = 0; i < count; ++i) answer(taken[i]);
    return count != 0;
  }
  void answer(rpc::request const& r) {
    rpc::request const sent = litmus_request(r.channel, r.sequence);
    bool const whole = r.op == sent.op && r.file == sent.file && r.offset == sent.offset &&
                       r.length == sent.length && r.staging == sent.staging &&
                       r.argument[0] == sent.argument[0] && r.argument[1] == sent.argument[1];
    if (!whole) ++wrong;
    if (r.channel >= channels) return;
    auto* const words = reinterpret_cast<std::uint64_t*>(staging.data() + sent.staging);
    if (sent.op == rpc::operation::open)
      for (std::uint64_t k = 0; k < piece_words; ++k) wrong += words[k] != sent_word(sent, k);
    for (std::uint64_t k = 0; k < piece_words; ++k) words[k] = answer_word(sent, k);
    // As the daemon answers: release pairs with the acquire in await().
    std::atomic_ref<std::uint64_t>{completions[r.channel].word}.store(
        rpc::pack_completion(r.sequence, piece_bytes), std::memory_order_release);
  }

  std::uint32_t channels;
  std::uint64_t slots;
  pinned_buffer<rpc::slot> ring;
  pinned_buffer<rpc::completion> completions;
  pinned_buffer<std::byte> staging;
  pinned_buffer<rpc::control_block> control;
  buffer<ring::channel_state> states;
  buffer<std::uint64_t> tail;
  buffer<std::byte> frames;
  daemon::request_queue queue;
  std::uint64_t wrong = 0;
  std::unique_ptr<host_side> host;  // last, so that it ends first
};

}  // namespace gpufs::test
