// What kernels need to read a block file by themselves: queue pairs on its members, lists of
// staging's pages, and a place in the table of backings.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/block_files_ref.hpp>
#include <gpufs/nvme/block_backing.hpp>
#include <gpufs/nvme/queue_group.hpp>

#include <nvme-host/dma_space.hpp>
#include <nvme-host/doorbell_relay.hpp>
#include <nvme-host/volume.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace gpufs::owner {

/// Memory that host and device reach, of one attachment.
struct kept_memory {
  std::shared_ptr<std::atomic<std::uint64_t>> pinned;  ///< bytes of the pieces that exist
  std::vector<std::shared_ptr<std::byte>> pieces{};
};

/// `keep` gets a share of each piece.
[[nodiscard]] nvme_host::memory_source pinned_memory(std::shared_ptr<kept_memory> keep);

/// Made while its volume's drives have device pairs. end() comes before the volume ends, this
/// object ends with the filesystem: kernels may know its pairs until then.
class device_drives {
 public:
  using memory_list = std::shared_ptr<kept_memory>;

  struct place {
    std::uint8_t number = 0;        ///< of the backing, 1..rpc::most_backings
    bool relays_doorbells = false;  ///< kernels' doorbells go through a thread of the host
  };

  /// `keep`: the memory of the pairs. Not yet in use: see publish().
  /// Throws device_error, std::system_error, std::runtime_error: kernels cannot read the file.
  device_drives(fs_ref const& fs, nvme_host::volume& volume, place const& at, memory_list keep);
  ~device_drives() { end(); }
  device_drives(device_drives const&) = delete;
  device_drives& operator=(device_drives const&) = delete;

  /// Kernels that open the file from now on read it by themselves.
  void publish() noexcept;

  /// The daemon serves the file from now on, and kernels' doorbells are relayed to the member no
  /// more: a reset of its controller begins. Any thread calls this and end_member().
  void begin_reset(std::size_t member) noexcept;
  /// The member's controller has stopped, or posts no completions any more. Takes staging away from
  /// it, and has kernels answer all commands under way on it with -EIO.
  void end_member(std::size_t member) noexcept;

  /// Whether a kernel had no answer of the member in time, and all others that wait for one have
  /// had it by now, or have given up. Then a reset frees their channels. If other replicas have the
  /// bytes: whether a kernel had none in half of the time.
  [[nodiscard]] bool lacks_answers(std::size_t member) noexcept;

  /// Takes staging away from the controllers, and ends what is under way. The controllers may be
  /// freed then, and the filesystem's memory. Any thread calls, once or more often.
  void end() noexcept;

  /// Whether kernels that open the file read it by themselves: no controller was reset, or owed an
  /// answer for too long.
  [[nodiscard]] bool in_use() const noexcept;
  /// Of all members together.
  [[nodiscard]] std::uint32_t pairs() const { return std::uint32_t(refs_.size()); }
  /// GPU memory.
  [[nodiscard]] std::uint64_t metadata_bytes() const;
  /// Pinned memory beside that of the list.
  [[nodiscard]] std::uint64_t pinned_bytes() const { return ended_.bytes(); }
  /// Commands whose completions kernels have taken.
  [[nodiscard]] std::uint64_t completed() const;
  /// Of these, commands that ended with an error.
  [[nodiscard]] std::uint64_t failed() const;
  /// Doorbells of kernels that a thread of the host has passed on.
  [[nodiscard]] std::uint64_t relayed() const { return relay_ ? relay_->relayed() : 0; }

 private:
  struct member_memory {
    nvme_host::dma_space* space = nullptr;
    std::uint64_t staging = 0;  // bus address; 0: not mapped
    nvme_host::dma_memory list;
    std::optional<std::chrono::steady_clock::time_point> no_answer_since;
  };

  [[nodiscard]] std::size_t pairs_of_each(nvme_host::volume const& volume) const;
  void make_pairs(nvme_host::volume& volume);
  void relay_doorbells();
  void map_staging(nvme_host::volume& volume);
  void fail() noexcept;
  void unmap(member_memory& member) noexcept;
  void mark_ended(std::size_t member) noexcept;
  [[nodiscard]] std::vector<nvme::queue_words> words() const;

  rpc::shared_region const shared_;
  place const place_;
  std::chrono::nanoseconds const timeout_;        // of kernels' waits
  std::span<handle::block_entry> const entries_;  // handle::entry_places of them
  memory_list const keep_;
  std::mutex ending_;  // guards members_, and who stops relay_
  std::vector<member_memory> members_;
  std::optional<nvme_host::doorbell_relay> relay_;
  // GPU memory, and what the host puts there.
  std::vector<nvme::queue_pair_ref> refs_;
  pinned_buffer<nvme::state_place> ended_;  // nvme::state_places of each member
  buffer<nvme::queue_pair_ref> pairs_;
  buffer<nvme::queue_words> words_;
  buffer<std::uint32_t> marks_;
  buffer<nvme::block_member> places_;
  buffer<std::uint64_t> out_until_;  // of each replica
  buffer<nvme::block_backing> backing_;
};

/// Those of all block files that were attached to a filesystem.
struct device_drive_list {
  std::mutex mutex;  ///< guards `all`
  std::vector<std::shared_ptr<device_drives>> all;
  /// As kept_memory, of all attachments.
  std::shared_ptr<std::atomic<std::uint64_t>> const pinned =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  device_drive_list() = default;
  ~device_drive_list() {
    for (auto const& each : all) each->end();
  }
  /// GPU memory of all of them. It stays until the end of the filesystem.
  [[nodiscard]] std::uint64_t metadata_bytes() {
    std::lock_guard const lock{mutex};
    std::uint64_t sum = 0;
    for (auto const& each : all) sum += each->metadata_bytes();
    return sum;
  }
  /// Host memory that is pinned for them, and for controllers of block files that the daemon reads.
  [[nodiscard]] std::uint64_t pinned_bytes() {
    std::lock_guard const lock{mutex};
    std::uint64_t sum = pinned->load(std::memory_order_relaxed);
    for (auto const& each : all) sum += each->pinned_bytes();
    return sum;
  }
  device_drive_list(device_drive_list const&) = delete;
  device_drive_list& operator=(device_drive_list const&) = delete;
};

}  // namespace gpufs::owner
