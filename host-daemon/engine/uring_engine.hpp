// Reads with io_uring. Each daemon thread has a ring. Staging is registered as its buffers, once
// for all rings where the kernel can. Files that are read often are registered with each ring.
#pragma once

#include <host-daemon/base/io_hooks.hpp>
#include <host-daemon/engine/io_engine.hpp>

#include <liburing.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpufs::daemon {

/// The threads that use a ring. `one`: the thread that attaches it. `any`: one at a time.
enum class ring_users { one, any };

class uring_engine final : public io_engine {
 public:
  /// Makes a ring for `depth` reads in flight into ranges of memory (`staging`, perhaps none). If
  /// the kernel refuses only the registrations, the engine works without them and notes() says so.
  /// `first`: an engine for the same staging that no thread has attached yet, or null. It shares
  /// its registration of staging.
  /// Throws std::system_error if the kernel refuses the ring (EPERM, ENOSYS, ENOMEM, ...).
  uring_engine(unsigned depth, std::vector<std::span<std::byte>> staging, io_hooks const& hooks,
               uring_engine* first = nullptr, ring_users users = ring_users::one);
  ~uring_engine() override;
  uring_engine(uring_engine const&) = delete;
  uring_engine& operator=(uring_engine const&) = delete;

  int attach() override;
  /// If the kernel refuses to start reads, for `patience` or for good, the engine reads with
  /// pread(2) from then on.
  [[nodiscard]] std::size_t room() const override { return depth_ - in_flight_; }
  std::optional<std::int64_t> submit(read_operation const& read) override;
  std::size_t poll(std::span<read_result> out) override;
  void wait(std::chrono::microseconds longest) override;
  void forget(local_file& file) override;

  [[nodiscard]] std::vector<std::string> const& notes() const noexcept { return notes_; }

  // The kernel's limit for one registered buffer.
  static constexpr std::size_t piece_bytes = std::size_t(1) << 30;
  // The most bytes that the rings of a daemon register where each must register all of staging for
  // itself. The kernel takes about 0.1 s and 8 MiB of its memory for a GiB.
  static constexpr std::size_t most_registered = std::size_t(8) << 30;
  static constexpr unsigned file_places = 1024;  // files that one thread has registered at once
  static constexpr std::uint32_t reads_before_registration = 8;

 private:
  void set_up(io_hooks const& hooks, ring_users users);
  void share_staging(io_hooks const& hooks, uring_engine* first);
  int clone_staging(io_hooks const& hooks, uring_engine& first);
  void register_staging(io_hooks const& hooks);
  void register_files(io_hooks const& hooks);
  int registration_of(read_source& source);
  [[nodiscard]] std::size_t staging_bytes() const noexcept;
  [[nodiscard]] int buffer_of(std::byte const* to, std::uint32_t length) const noexcept;
  void forget(read_source& source);
  void start();
  void give_up();

  // So long the kernel may have no memory to start reads.
  static constexpr std::chrono::milliseconds patience{100};

  ::io_uring ring_{};
  bool enabled_ = true;  // false: its one submitting thread has yet to enable it
  std::size_t depth_;
  std::vector<std::span<std::byte>> staging_;
  bool buffers_registered_ = false;
  std::size_t registered_ = 0;  // bytes that this engine and those that name it first registered
  std::vector<int> free_entries_;
  std::size_t in_flight_ = 0;  // submitted and not polled
  // Of these, not started, oldest first. It has room for all.
  std::vector<read_operation> waiting_;
  std::optional<std::chrono::steady_clock::time_point> refused_since_;
  bool gave_up_ = false;  // no read is started any more
  // Read by pread(2) when the engine gave up, to be polled. It has room for all.
  std::vector<read_result> done_;
  std::vector<std::string> notes_;
};

}  // namespace gpufs::daemon
