// How one daemon thread reads files: the interface, and the reads it is asked for. Engines do
// single read operations; what to do about short reads, interruptions and errors is decided in one
// place, by the worker.
#pragma once

#include <host-daemon/file_registry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace gpufs::daemon {

/// A descriptor that one thread reads from.
struct read_source {
  int fd = -1;
  std::uint32_t reads =
      0;  ///< reads issued, saturating: engines register a descriptor only when it is read often
  int registration = -1;  ///< the engine's place for it, -1 = none
};

/// What a thread has found out about how much of a file is in the OS page cache. See path_choice.
struct cache_guess {
  bool cold = false;            ///< what the last sample said
  bool never_direct = false;    ///< its reads are always buffered
  bool no_cachestat = false;    ///< cachestat(2) was refused
  std::uint32_t interval = 0;   ///< requests from one sample to the next
  std::uint32_t unsampled = 0;  ///< requests to come before the next one is sampled
};

/// A file as one thread knows it: the borrowed host file, how many of the thread's reads use it,
/// its descriptors.
struct local_file {
  std::shared_ptr<host_file const> host;
  std::int32_t descriptor = -1;
  std::uint32_t in_use = 0;  ///< requests of this thread that have not been answered
  bool current =
      true;  ///< false once the descriptor is closed: to be given up when in_use falls to 0
  read_source buffered;
  read_source direct;                       ///< with O_DIRECT; no descriptor until it is needed
  direct_file const* past_cache = nullptr;  ///< host->direct() once that was called
  cache_guess guess;
};

struct read_operation {
  read_source* from = nullptr;
  std::uint64_t offset = 0;  ///< in the file, at most 2^63 - 1 - length
  std::uint32_t length = 0;  ///< bytes, 1..2^30
  std::byte* to = nullptr;   ///< best within staging
  std::uint64_t cookie = 0;  ///< comes back with the result
};

struct read_result {
  std::uint64_t cookie;
  std::int64_t result;  ///< as one read system call gave it: bytes (0 = end of file), or -errno
};

/// Belongs to one thread once attached. No function throws.
class io_engine {
 public:
  virtual ~io_engine() = default;

  /// Called first, by the thread that will use the engine. Returns 0 or -errno.
  virtual int attach() = 0;

  /// Number of reads that submit() accepts before further results have been polled.
  [[nodiscard]] virtual std::size_t room() const = 0;

  /// Accepts a read. Returns its result if it is done already; else it has started or starts at the
  /// next poll() or wait(), and poll() gives its result. Needs room() > 0.
  virtual std::optional<std::int64_t> submit(read_operation const& read) = 0;

  /// Starts what was submitted, fetches finished reads without waiting for any, in any order.
  /// Returns how many.
  virtual std::size_t poll(std::span<read_result> out) = 0;

  /// Waits until a read has finished, `longest` has passed or a signal came.
  virtual void wait(std::chrono::microseconds longest) = 0;

  /// Gives up whatever the engine keeps of `file`; no read of it is under way.
  virtual void forget(local_file& file) = 0;
};

}  // namespace gpufs::daemon
