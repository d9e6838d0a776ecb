// The interface by which one daemon thread reads files. An engine does single read operations. The
// worker alone decides about short reads, interruptions and errors.
#pragma once

#include <host-daemon/backend/stored_file.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace gpufs::daemon {

/// A descriptor that one thread reads from.
struct read_source {
  int fd = -1;                              ///< -1: the file has none, see stored_file
  stored_file const* file = nullptr;        ///< the file
  direct_file const* past_cache = nullptr;  ///< not null: the descriptor is this one's
  file_view* view = nullptr;                ///< of the file, null: none
  /// The file's version if it is not written here, else 0: then its size may change at any time.
  std::uint64_t version = 0;
  /// Reads issued, saturating. Engines register a descriptor only if it is read often.
  std::uint32_t reads = 0;
  int registration = -1;  ///< the engine's place for it, -1 = none
};

/// What a thread knows of how much of a file is in the OS page cache. See path_choice.
struct cache_guess {
  bool cold = false;            ///< what the last sample said
  bool never_direct = false;    ///< its reads are always buffered
  bool no_cachestat = false;    ///< cachestat(2) was refused
  std::uint32_t interval = 0;   ///< requests from one sample to the next
  std::uint32_t unsampled = 0;  ///< requests to come before the next one is sampled
};

/// A file as one thread knows it: the borrowed file, its descriptors, and how many of the thread's
/// reads use it.
struct local_file {
  std::shared_ptr<stored_file const> host;
  std::int32_t descriptor = -1;
  std::uint32_t in_use = 0;  ///< requests of this thread that have not been answered
  /// False once the descriptor is closed. The file is given back when in_use falls to 0.
  bool current = true;
  read_source buffered;
  read_source direct;                       ///< with O_DIRECT; no descriptor until it is needed
  direct_file const* past_cache = nullptr;  ///< host->direct() once that was called
  cache_guess guess;

  /// Sets up `buffered` for reads of `host`.
  void begin() noexcept {
    buffered.fd = host->read_descriptor();
    buffered.file = host.get();
    buffered.view = host->view();
    guess.never_direct = buffered.fd < 0;
  }
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

/// Belongs to one thread once it is attached. No function throws.
class io_engine {
 public:
  virtual ~io_engine() = default;

  /// The thread that will use the engine calls this first. Returns 0 or -errno.
  virtual int attach() = 0;

  /// Returns the number of reads that submit() accepts before more results have been polled.
  [[nodiscard]] virtual std::size_t room() const = 0;

  /// Accepts a read. Needs room() > 0.
  /// Returns its result if it is done already. Else it has started, or starts at the next poll() or
  /// wait(), and poll() gives its result.
  virtual std::optional<std::int64_t> submit(read_operation const& read) = 0;

  /// Starts the submitted reads and fetches results of finished ones, in any order. Never waits.
  /// Returns how many results it fetched.
  virtual std::size_t poll(std::span<read_result> out) = 0;

  /// Waits until a read has finished, `longest` has passed, or a signal came.
  virtual void wait(std::chrono::microseconds longest) = 0;

  /// Gives up all that the engine keeps of `file`. No read of it is under way.
  virtual void forget(local_file& file) = 0;
};

}  // namespace gpufs::daemon
