// Reads with io_uring: one ring per daemon thread, staging registered as its buffers, often-read
// files registered too.
#pragma once

#include <host-daemon/io_engine.hpp>
#include <host-daemon/io_hooks.hpp>

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpufs::daemon {

class uring_engine final : public io_engine {
 public:
  /// Makes a ring for `depth` reads in flight into `staging`, on behalf of the thread that will
  /// attach(). Throws std::system_error if the kernel refuses the ring (EPERM, ENOSYS, ENOMEM,
  /// ...). If it only refuses the registrations, the engine goes on without them and says so in
  /// notes().
  uring_engine(unsigned depth, std::span<std::byte> staging, io_hooks const& hooks);
  ~uring_engine() override;
  uring_engine(uring_engine const&) = delete;
  uring_engine& operator=(uring_engine const&) = delete;

  int attach() override;
  [[nodiscard]] std::size_t room() const override { return depth_ - in_flight_; }
  std::optional<std::int64_t> submit(read_operation const& read) override;
  std::size_t poll(std::span<read_result> out) override;
  void wait(std::chrono::microseconds longest) override;
  void forget(local_file& file) override;

  [[nodiscard]] std::vector<std::string> const& notes() const noexcept { return notes_; }

  static constexpr std::size_t piece_bytes = std::size_t(1)
                                             << 30;  // the kernel's limit for one registered buffer
  static constexpr unsigned file_places = 1024;      // files that one thread has registered at once
  static constexpr std::uint32_t reads_before_registration = 8;

 private:
  void set_up(io_hooks const& hooks);
  void register_staging(io_hooks const& hooks);
  void register_files(io_hooks const& hooks);
  int place_of(read_source& source);
  void forget(read_source& source);
  void start();

  ::io_uring ring_{};
  bool enabled_ = true;  // false: a ring that its one submitting thread has yet to enable
  std::size_t depth_;
  std::span<std::byte> staging_;
  bool buffers_registered_ = false;
  std::vector<int> free_places_;
  std::size_t in_flight_ = 0;  // submitted and not polled
  unsigned waiting_ = 0;       // of these, not started
  std::vector<std::string> notes_;
};

}  // namespace gpufs::daemon
