// The consumer's side of the request ring. Any number of daemon threads take requests, and each
// request goes to exactly one of them.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpufs::daemon {

/// All functions are thread-safe and never wait. A producer (a device caller) holds a channel from
/// before it takes a ticket until it has seen the answer. There are at least as many slots as
/// channels.
class request_queue {
 public:
  /// The most requests that one take() claims.
  static constexpr std::size_t most_at_once = 16;

  /// `slots`: a power of two. `consumers`: the number of threads that take. A claim leaves enough
  /// requests for the others.
  request_queue(rpc::slot* ring, std::uint64_t slots, unsigned consumers) noexcept
      : ring_{ring}, slots_{slots}, consumers_{std::max(1u, consumers)} {}

  /// Takes the oldest requests, in order: this thread's share of those that wait, at least one if
  /// one waits, at most out.size(). Returns how many it wrote to `out`. 0: the queue is empty.
  std::size_t take(std::span<rpc::request> out) noexcept {
    std::uint64_t at = head_.load(std::memory_order_acquire);
    while (!out.empty()) {
      auto const count = copy_ready(at, out.first(std::min(out.size(), share(at))));
      // Test before test-and-set: the line stays shared among threads that have lost already.
      auto const now = head_.load(std::memory_order_acquire);
      if (now != at) {
        at = now;  // others took this ticket, so the copy may be anything
        continue;
      }
      if (count == 0) return 0;
      // Why a successful exchange makes the copy valid:
      // Ticket t + slots is the next to write the slot of ticket t. When it was taken, slots + 1
      // tickets from t on existed, but at most `channels` <= slots callers. So one of t .. t +
      // slots - 1, say u, had been answered.
      // u was claimed by an exchange at or after the one that claimed t. Ours is a release after
      // our loads, and u's is an acquire. The answer to u, its caller's acquire of it, and the
      // passing on of its channel order the new payload behind that. So our loads precede any
      // overwriting.
      // A copy that was overtaken is thrown away, because head has moved.
      // Release also pairs with the acquire loads of head above: a thread that sees the new head
      // orders its claims behind this one.
      if (head_.compare_exchange_strong(at, at + count, std::memory_order_acq_rel,
                                        std::memory_order_acquire))
        return count;
    }
    return 0;
  }

  /// Returns true if a request waits. Another thread may take it first.
  [[nodiscard]] bool ready() const noexcept {
    rpc::request ignored;
    return copy_slot(head_.load(std::memory_order_acquire), ignored);
  }

  /// The number of requests taken since construction.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    return head_.load(std::memory_order_acquire);
  }

 private:
  using word = std::atomic_ref<std::uint64_t>;

  // Guesses by its last word whether a request is there.
  [[nodiscard]] bool seems_ready(std::uint64_t ticket) const noexcept {
    auto const seen = word{ring_[ticket & (slots_ - 1)].word[rpc::words_per_slot - 1]}.load(
        std::memory_order_relaxed);
    return rpc::tag_of(seen) == rpc::lap_tag(ticket, slots_);
  }

  // Copies the request of a ticket if all its words have arrived. Acquire pairs with the producer's
  // release stores of the words: a thread that sees the tags sees the data that was put into
  // staging before.
  bool copy_slot(std::uint64_t ticket, rpc::request& out) const noexcept {
    auto& from = ring_[ticket & (slots_ - 1)];
    auto const tag = rpc::lap_tag(ticket, slots_);
    std::uint64_t words[rpc::words_per_slot];
    for (unsigned i = 0; i < rpc::words_per_slot; ++i) {
      words[i] = word{from.word[i]}.load(std::memory_order_acquire);
      if (rpc::tag_of(words[i]) != tag) return false;
    }
    out = rpc::unpack(words);
    return true;
  }

  // A thread may claim n requests when n - 1 more wait for every other thread. Tickets arrive
  // nearly in order, so a look at the last of them is a good guess. copy_ready() looks at each one
  // that is taken.
  [[nodiscard]] std::size_t share(std::uint64_t at) const noexcept {
    std::size_t n = 1;
    while (n < most_at_once && n * 2 * consumers_ <= slots_ &&
           seems_ready(at + n * 2 * consumers_ - 1))
      n *= 2;
    return n;
  }

  // Copies requests from ticket `at` on until one is missing.
  std::size_t copy_ready(std::uint64_t at, std::span<rpc::request> out) const noexcept {
    std::size_t count = 0;
    while (count < out.size() && copy_slot(at + count, out[count])) ++count;
    return count;
  }

  rpc::slot* ring_;
  std::uint64_t slots_;
  std::uint64_t consumers_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  [[maybe_unused]] char fill_[64 - sizeof(std::atomic<std::uint64_t>)];
};

}  // namespace gpufs::daemon
