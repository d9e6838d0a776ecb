// Faults that tests put between a request and the file: errors, short reads, and requests held
// until a gate opens.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace gpufs::daemon {

/// Holds requests until a test lets them go. Thread-safe. Once released it stays open.
class gate {
 public:
  /// Lets every request held here go on, and all that come later.
  // Pairs with the acquire in is_open(): what the test did before the release is seen by the thread
  // that goes on.
  void release() noexcept { open_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }

  /// Number of requests that have arrived at this gate so far, gone on or not: tests wait for it
  /// instead of sleeping.
  [[nodiscard]] std::uint64_t arrivals() const noexcept {
    return arrivals_.load(std::memory_order_acquire);
  }

  /// Called by the daemon when it parks a request here. Pairs with the acquire in arrivals().
  void arrive() noexcept { arrivals_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<bool> open_{false};
  std::atomic<std::uint64_t> arrivals_{0};
};

/// What shall happen to an operation instead of, or before, the real thing.
struct fault_action {
  enum class kind { pass, fail, shorten, hold };

  kind what = kind::pass;
  int error = 0;  ///< fail: a positive errno
  std::uint64_t bytes =
      0;  ///< shorten: the read system call asks for at most this many bytes (at least 1)
  std::shared_ptr<gate> until =
      nullptr;  ///< hold: parked until this gate opens, then goes on as `pass`

  static fault_action pass() { return {}; }
  static fault_action fail(int error) { return {.what = kind::fail, .error = error}; }
  static fault_action shorten(std::uint64_t bytes) {
    return {.what = kind::shorten, .bytes = bytes};
  }
  static fault_action hold(std::shared_ptr<gate> until) {
    return {.what = kind::hold, .until = std::move(until)};
  }
};

/// Asked by every daemon thread, so implementations are thread-safe; it must outlive the server.
struct fault_injector {
  virtual ~fault_injector() = default;

  /// Before each read system call for `request` (one request takes several when reads are short).
  /// `offset`: file offset of this call. `length`: bytes it will ask for.
  virtual fault_action before_read(rpc::request const& request, std::uint64_t offset,
                                   std::uint64_t length) {
    static_cast<void>(request), static_cast<void>(offset), static_cast<void>(length);
    return fault_action::pass();
  }

  /// On the transfer thread, before it tells the device to copy: may wait, as that call may.
  virtual void before_copy() {}

  /// On the window thread, before it has bytes [offset, offset + length) of a file mapped for the
  /// device: may wait, as that call may. `fail`: the device refuses (anything else counts as
  /// `pass`).
  virtual fault_action before_map(std::uint64_t offset, std::uint64_t length) {
    static_cast<void>(offset), static_cast<void>(length);
    return fault_action::pass();
  }

  /// Before each write system call for dirty pages of `file` (a descriptor of the host). A call
  /// that fails is not repeated for the bytes that follow in the same run of pages.
  virtual fault_action before_write(int file, std::uint64_t offset, std::uint64_t length) {
    static_cast<void>(file), static_cast<void>(offset), static_cast<void>(length);
    return fault_action::pass();
  }

  /// Before each fdatasync of `file` (`shorten` counts as `pass`).
  virtual fault_action before_sync(int file) {
    static_cast<void>(file);
    return fault_action::pass();
  }

  /// Before an open that came through the ring (`shorten` counts as `pass`). Opens by host code are
  /// not asked about.
  virtual fault_action before_open(std::string_view path) {
    static_cast<void>(path);
    return fault_action::pass();
  }
};

}  // namespace gpufs::daemon
