// A plain driver of one I/O queue pair, for tests: one thread, one doorbell per call.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-host/control_plane.hpp>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>

namespace gpufs::test {

/// A submission queue and a completion queue of any sizes.
class plain_queue {
 public:
  plain_queue(nvme::sqe* sq, std::uint32_t sq_entries, nvme::cqe* cq, std::uint32_t cq_entries,
              std::uint32_t* sq_doorbell, std::uint32_t* cq_doorbell)
      : sq_{sq},
        sq_entries_{sq_entries},
        cq_{cq},
        cq_entries_{cq_entries},
        sq_doorbell_{sq_doorbell},
        cq_doorbell_{cq_doorbell} {}
  explicit plain_queue(nvme_host::queue_pair_memory const& m)
      : plain_queue{m.sq, m.depth, m.cq, 2 * m.depth, m.sq_doorbell, m.cq_doorbell} {}

  void push(nvme::sqe const& entry) {
    std::memcpy(&sq_[tail_], &entry, sizeof entry);
    tail_ = (tail_ + 1) % sq_entries_;
  }
  void ring() { store(sq_doorbell_, tail_); }

  /// The next completion, if it is there. It is acknowledged at once.
  std::optional<nvme::cqe> poll() {
    auto* const words = cq_[head_].dw;
    nvme::cqe out{};
    out.dw[3] = std::atomic_ref<std::uint32_t>{words[3]}.load(std::memory_order_acquire);
    if (nvme::phase_of(out.dw[3]) != phase_) return {};
    for (unsigned i = 0; i < 3; ++i)
      out.dw[i] = std::atomic_ref<std::uint32_t>{words[i]}.load(std::memory_order_relaxed);
    if (++head_ == cq_entries_) head_ = 0, phase_ ^= 1;
    store(cq_doorbell_, head_);
    return out;
  }
  nvme::cqe wait() {
    std::optional<nvme::cqe> got;
    wait_until([&] { return (got = poll()).has_value(); }, "a completion");
    return *got;
  }
  nvme::cqe call(nvme::sqe const& entry) {
    push(entry);
    ring();
    return wait();
  }

  /// Entries of the completion queue that have a phase of 1: those of the first lap.
  [[nodiscard]] unsigned posted() const {
    unsigned sum = 0;
    for (std::uint32_t i = 0; i < cq_entries_; ++i)
      sum += nvme::phase_of(
          std::atomic_ref<std::uint32_t>{cq_[i].dw[3]}.load(std::memory_order_acquire));
    return sum;
  }

 private:
  static void store(std::uint32_t* word, std::uint32_t value) {
    std::atomic_ref<std::uint32_t>{*word}.store(value, std::memory_order_release);
  }

  nvme::sqe* sq_;
  std::uint32_t sq_entries_;
  nvme::cqe* cq_;
  std::uint32_t cq_entries_;
  std::uint32_t* sq_doorbell_;
  std::uint32_t* cq_doorbell_;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t phase_ = 1;
};

}  // namespace gpufs::test
