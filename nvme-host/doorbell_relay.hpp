// Doorbells of kernels that cannot reach a controller's registers: words in memory, and a thread
// that copies their values to the registers.
#pragma once

#include <nvme-host/dma_space.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gpufs::nvme_host {

/// A doorbell, and the member of a volume that it belongs to.
struct relayed_doorbell {
  std::uint32_t* to = nullptr;  ///< the register; its value is 0
  std::size_t member = 0;
};

/// Its thread looks at all words. While none changes it rests, as daemon::idle_policy says, and 1
/// ms at a time after about a second.
///
/// Why no doorbell overtakes entries. A kernel stores a doorbell's value once the entries below it
/// are in memory. The thread loads the value with acquire, and stores it with release. So a
/// controller that sees the value finds the entries, and a head follows the looks at its entries.
///
/// Why no doorbell is missed. Values are positions in a queue, so the last one stands for all
/// before it. A position does not come back to the value that the controller has. Until it sees the
/// next one, at most D - 1 commands are under way. Until it sees the next head, it posts at most
/// 2 D - 1 completions. For the same reason no value is written twice in a row.
class doorbell_relay {
 public:
  /// `memory` gives what kernels and the host reach. Throws what it throws, and std::system_error
  /// if there is no thread.
  doorbell_relay(std::vector<relayed_doorbell> const& doorbells, memory_source const& memory);
  ~doorbell_relay() { stop(); }
  doorbell_relay(doorbell_relay const&) = delete;
  doorbell_relay& operator=(doorbell_relay const&) = delete;

  /// Where kernels store the values of a doorbell. Valid until this object ends, and as long as
  /// somebody keeps the memory.
  [[nodiscard]] std::uint32_t* word(std::size_t doorbell) const;

  /// Returns once no register of the member is written any more. Any thread calls.
  void end(std::size_t member) noexcept;
  /// The same for all members. One thread at a time calls, once or more often.
  void stop() noexcept;

  /// Values that were written to registers.
  [[nodiscard]] std::uint64_t relayed() const { return relayed_.load(std::memory_order_relaxed); }

 private:
  struct entry {
    relayed_doorbell doorbell;
    std::uint32_t last = 0;  // value that was seen; the thread's own
  };

  void run() noexcept;
  bool pass() noexcept;
  void write(relayed_doorbell const& to, std::uint32_t value) noexcept;

  std::vector<entry> entries_;
  std::shared_ptr<std::byte> words_;
  std::mutex writing_;           // held while a register is written; guards has_ended_
  std::vector<bool> has_ended_;  // by member
  std::atomic<std::uint64_t> relayed_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace gpufs::nvme_host
