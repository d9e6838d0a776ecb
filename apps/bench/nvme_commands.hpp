// Kernels that send NVMe commands by queue pairs of their own.
#pragma once

#include <apps/bench/nvme_controllers.hpp>

#include <cstdint>

namespace gpufs::apps {

inline constexpr unsigned most_command_threads = 512;
inline constexpr std::uint32_t most_pairs = 128;        ///< of a software controller
inline constexpr std::uint32_t read_block_bytes = 512;  ///< of a block of read_blocks()

/// Who sends commands. Each thread sends `rounds` commands, one after the other.
struct command_shape {
  unsigned blocks = 1;
  unsigned threads = 32;  ///< a multiple of 32, at most most_command_threads
  std::uint32_t rounds = 1;

  [[nodiscard]] constexpr std::uint64_t commands() const {
    return std::uint64_t{blocks} * threads * rounds;
  }
  [[nodiscard]] constexpr std::uint64_t warps() const {
    return std::uint64_t{blocks} * (threads / 32);
  }
};

/// What a kernel found.
struct command_report {
  std::uint64_t answered = 0;  ///< commands that succeeded
  std::uint64_t wrong = 0;     ///< blocks whose bytes are wrong
  std::int64_t error = 0;      ///< the first, -errno
  std::uint64_t doorbells = 0;
  std::uint64_t head_doorbells = 0;
};

struct command_run {
  std::uint64_t commands = 0;
  double seconds = 0;
  std::uint64_t doorbells = 0;       ///< of submission queues
  std::uint64_t head_doorbells = 0;  ///< of completion queues

  /// Millions of commands a second.
  [[nodiscard]] double rate() const { return static_cast<double>(commands) / seconds / 1e6; }
};

/// The controllers are new: each object serves one run. Kernels wait for an answer as long as the
/// controllers' options say. Functions throw device_error. They throw std::runtime_error if a
/// command fails or is not answered in time, or if counts or bytes are wrong.

/// Sends flushes: commands without data, which controllers answer at once.
[[nodiscard]] command_run send_flushes(answered_queues& on, command_shape const& shape);

/// The same in the order that the memory model asks for: marks and doorbells are releases, and
/// entries are not loaded back. The emulated device knows no other order.
[[nodiscard]] command_run send_flushes_formally(answered_queues& on, command_shape const& shape);

/// The same by the published protocol: a ticket for each entry, and each thread looks through the
/// completion queue for the entry of its command.
[[nodiscard]] command_run send_flushes_published(answered_queues& on, command_shape const& shape);

/// Reads random blocks of read_block_bytes into pinned memory, and pulls and checks all bytes. The
/// namespace has what fill_blocks() stores, data() has a block for each thread.
[[nodiscard]] command_run read_blocks(bench_controllers& on, command_shape const& shape);

/// Millions of flushes a second that the controllers answer if all entries of the queues are there
/// in time: the limit of send_flushes(). No kernel takes part. Each lap is a queue's entries but
/// one. Throws std::runtime_error if they are not answered in time.
[[nodiscard]] double measure_controller_rate(bench_controllers const& on, std::uint32_t laps);

/// Fills a namespace with words that depend on their places.
void fill_blocks(nvme_controller::memory_namespace const& blocks);

/// What a run came to, if the kernel answered all commands, and the controllers have counted as
/// many. Throws std::runtime_error that begins with `what`.
[[nodiscard]] command_run checked_run(char const* what, answered_queues const& on,
                                      command_shape const& shape, command_report const& report,
                                      double seconds);

}  // namespace gpufs::apps
