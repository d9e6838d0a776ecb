// What a filesystem consists of: the memory that it shares with kernels and with the daemon, and
// the daemon.
#pragma once

#include <gpufs/cache/frame.hpp>
#include <gpufs/cache/geometry.hpp>
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/layout.hpp>
#include <gpufs/rpc/channel_state.hpp>

#include <host-daemon/server.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs {

struct filesystem::state {
  config settings;
  layout sizes;
  std::shared_ptr<daemon::fault_injector> faults;

  // Pinned host memory, shared with the daemon.
  pinned_buffer<rpc::slot> ring;
  pinned_buffer<rpc::completion> completions;
  pinned_buffer<std::byte> staging;
  pinned_buffer<rpc::open_file_record> open_files;
  pinned_buffer<rpc::control_block> control;
  pinned_buffer<rpc::buffer_header> write_headers;
  pinned_buffer<std::uint64_t> write_words;  ///< posted, written, and the files' errors
  pinned_buffer<std::byte> write_bytes;

  // GPU memory.
  buffer<std::uint64_t> tails;
  buffer<std::uint64_t> sweep_hand;
  buffer<std::uint64_t> buckets;
  buffer<std::uint32_t> bucket_locks;
  buffer<std::byte> headers;
  buffer<std::byte> frames;
  buffer<channel_state> channel_states;
  buffer<std::uint32_t> slots;
  buffer<std::uint32_t> claimed_slots;
  buffer<prefetch::readahead_state> readahead;
  buffer<lra_queue> queues;
  buffer<lra_totals> queue_totals;
  buffer<std::uint32_t> queue_links;
  buffer<std::uint64_t> counters;
  buffer<std::uint32_t> pulls_under_way;
  buffer<std::byte> twin;  // of staging
  buffer<std::byte> write_states;
  buffer<std::uint32_t> frame_buffers;
  buffer<std::uint64_t> write_hand;
  buffer<std::byte> shared_files;
  buffer<std::byte> records;
  buffer<std::uint32_t> write_counters;
  buffer<std::uint32_t> mappings;
  buffer<std::uint32_t>
      keepers;  ///< a line for how many frames are kept, then one word for each frame
  buffer<rpc::window_entry> window_table;
  buffer<std::byte> handle;
  fs_ref ref;

  std::unique_ptr<daemon::transfer_engine> transfers;
  std::unique_ptr<daemon::window_registrar> windows;
  std::unique_ptr<daemon::server> server;

  /// Errors as filesystem's constructor.
  state(config const& c, std::shared_ptr<daemon::fault_injector> f);
  ~state();
  state(state const&) = delete;
  state& operator=(state const&) = delete;

  [[nodiscard]] rpc::shared_region shared() const;
  [[nodiscard]] fs_ref make_ref() const;
  [[nodiscard]] std::vector<std::string> mapped() const;

  /// Has windows mapped that will be read, as far as the OS page cache has them by then; length 0 =
  /// to the end of the file.
  void want_windows(int fd, std::uint64_t offset, std::uint64_t length) const;

  /// A counter of all stripes, of which `all` is a copy.
  [[nodiscard]] std::uint64_t sum(std::uint64_t const* all, counter which) const;
};

}  // namespace gpufs
