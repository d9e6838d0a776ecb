// The states of blocks, what the CPU may do with them, and which are to be sent.
#pragma once

#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/block_transfers.hpp>
#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping/requests.hpp>
#include <gpufs/mapping/rolling.hpp>

#include <cstdint>

namespace gpufs::shared {

/// The protocol between CPU and device, block by block (ADSM, section 4.3). A block is `invalid`,
/// `read_only` or `dirty`; dirty blocks of rolling objects are sent before a release if there are
/// more than the rolling size. All functions need the mutex of the address space, and the device
/// current. They throw what block_transfers throws, and no_mappings where that stands.
class block_states {
 public:
  block_states(mapping_config const& settings, guarded_range& range, block_transfers& transfers)
      : range_(range), transfers_(transfers), rolling_(settings) {}

  [[nodiscard]] rolling_size& rolling() { return rolling_; }
  /// A launch begins. With few dirty blocks the automatic rolling size shrinks.
  void launched() { rolling_.released(written_.size()); }

  /// Sets what the CPU may do with blocks, but those that a call uses. Returns 0 or errno.
  [[nodiscard]] int protect(object& o, block_run r, device_memory::host_access to);
  /// Throws no_mappings.
  void protect_or_throw(object& o, block_run r, device_memory::host_access to);
  /// Sets states and what follows from them in the object's sets, not the protection.
  void set_state(object& o, block_run r, block_state to);
  /// The same where the object's set of readable blocks is right already.
  static void fill(object& o, block_run r, block_state to) noexcept;

  /// The CPU's bytes of the block are up to date. It becomes read_only, if it was not. Throws
  /// no_mappings, and leaves the block as it was.
  void make_readable(object& o, block_run one, device_memory::host_access to);
  /// `rolls`: it counts for the rolling size, and may be sent before a release.
  /// evict_beyond_limit() and start_sends() are to follow then.
  void make_dirty(object& o, std::uint64_t block, bool rolls);
  /// The dirty blocks of a run stay so until a release: none of them is sent before.
  void keep_dirty(object& o, block_run r) noexcept;
  /// Queues the oldest dirty blocks of rolling objects until no more are left than may be.
  void evict_beyond_limit();
  /// Queues the dirty blocks of a run, neighbours together. They are read_only afterwards.
  void clean(object& o, block_run r, reason why);
  /// Dirty blocks of a run are no longer to be sent.
  void forget_dirty(object& o, block_run r);
  /// The system has no more mappings: makes all blocks of the object alike. No call uses it. Throws
  /// no_mappings.
  void merge(object& o);

 private:
  void evict(written_block oldest);

  guarded_range& range_;
  block_transfers& transfers_;
  written_list written_;  ///< of rolling objects, the oldest first
  rolling_size rolling_;
};

}  // namespace gpufs::shared
