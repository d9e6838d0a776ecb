// Our model of GPUfs, to compare gpufs with. It follows sections 2.2 and 3 of the GPUfs readahead
// paper (docs/architecture.md, References). A request is for one page. Slots are bound to block
// ids. Each host thread polls a fixed share of the slots, reads one page and copies it by itself.
// One global lock guards the frames. The oldest frame is freed and allocated anew. For one file
// that is only read, by whole blocks.
#pragma once

#include <apps/baseline/original_state.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps::original {

struct options {
  std::uint64_t page_size = 4096;         ///< bytes, a power of two from 512 to 4 MiB
  std::uint64_t cache_size = 1ull << 30;  ///< bytes; at least one page
  /// bytes that a request asks for beyond its page, for the block's next misses (GPUfs
  /// readahead paper, section 4.1); a multiple of page_size up to 64 MiB; 0: none, as it was
  std::uint64_t readahead = 0;
  unsigned host_threads = 4;  ///< 1..256, at most `slots`
  /// of the shared queue, 1..4096; thread t polls [t * slots / threads, (t + 1) * slots / threads)
  unsigned slots = 128;
  /// false: the host reads and answers, but brings nothing over (the paper, figure 3)
  bool transfers = true;
  bool record = false;               ///< keep a trace of what each host thread reads (figure 5)
  std::uint32_t timeout_ms = 10000;  ///< longest wait of a kernel
};

/// One read of a host thread.
struct host_read {
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct thread_statistics {
  std::uint64_t requests = 0;            ///< served
  std::uint64_t idle_polls = 0;          ///< looks at all of its slots that found nothing
  std::uint64_t polls_before_first = 0;  ///< of these, before its first request (figure 6)
  std::vector<host_read> trace;          ///< options::record
};

/// Since the last start_counting().
struct statistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t waits = 0;
  std::uint64_t evictions = 0;
  std::uint64_t requests = 0;
  std::uint64_t bytes_dma = 0;  ///< brought over by the host's copies
  std::vector<thread_statistics> threads;
};

/// One file, its cache in device memory, and the host threads that serve it. The threads make CUDA
/// calls while kernels run: the program must not free device or pinned memory meanwhile.
class file_system {
 public:
  /// Throws std::invalid_argument naming the option that is wrong, std::system_error naming the
  /// file if it cannot be opened, device_error if there is no memory.
  file_system(std::string const& path, options const& o);

  /// Ends the threads and frees everything. No kernel that uses it may be running.
  ~file_system();
  file_system(file_system const&) = delete;
  file_system& operator=(file_system const&) = delete;

  [[nodiscard]] original::ref ref() const;

  /// Sets all counters to zero and empties the traces. Not while a kernel runs.
  void start_counting();

  /// Exact when no kernel is running, but for idle_polls.
  [[nodiscard]] statistics stats() const;

  /// What went wrong on a host thread first, other than reads; empty if nothing did. Not while a
  /// kernel runs.
  [[nodiscard]] std::string failure() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs::apps::original
