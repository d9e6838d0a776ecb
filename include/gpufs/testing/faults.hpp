// Faults that tests put between a request and the file: errors, short operations, and operations
// held until a gate opens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace gpufs::rpc {
struct request;
}

namespace gpufs::testing {

/// Holds operations until a test lets them go. It stays open after that. Any thread calls.
class gate {
 public:
  /// Lets all operations go on that wait here now or arrive later.
  // Pairs with the acquire in is_open(): a thread that goes on sees what the test did before.
  void release() noexcept { open_.store(true, std::memory_order_release); }
  /// True once release() was called.
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }

  /// Number of operations that have arrived so far. Tests wait for it instead of sleeping.
  [[nodiscard]] std::uint64_t arrivals() const noexcept {
    return arrivals_.load(std::memory_order_acquire);
  }

  /// The daemon calls this when it parks an operation. Pairs with the acquire in arrivals().
  void arrive() noexcept { arrivals_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<bool> open_{false};
  std::atomic<std::uint64_t> arrivals_{0};
};

/// The injector's answer about one operation.
/// pass     The operation is done.
/// fail     It is not done and fails with `error`.
/// shorten  The system call asks for at most `bytes` bytes.
/// hold     The operation waits until the gate `until` opens, then passes.
struct fault_action {
  /// See above.
  enum class kind { pass, fail, shorten, hold };

  kind what = kind::pass;                 ///< what happens to the operation
  int error = 0;                          ///< of fail: a positive errno
  std::uint64_t bytes = 0;                ///< of shorten: at least 1
  std::shared_ptr<gate> until = nullptr;  ///< of hold

  /// An answer of kind pass.
  static fault_action pass() { return {}; }
  /// An answer of kind fail. `error` > 0.
  static fault_action fail(int error) { return {.what = kind::fail, .error = error}; }
  /// An answer of kind shorten. `bytes` > 0.
  static fault_action shorten(std::uint64_t bytes) {
    return {.what = kind::shorten, .bytes = bytes};
  }
  /// An answer of kind hold.
  static fault_action hold(std::shared_ptr<gate> until) {
    return {.what = kind::hold, .until = std::move(until)};
  }
};

/// A test's hooks in the daemon. All daemon threads call; implementations are thread-safe.
/// It must outlive the server. Each default lets the operation pass.
struct fault_injector {
  virtual ~fault_injector() = default;

  /// Called before each read system call of a request. A short read takes several calls.
  /// `offset`, `length`: bytes of the file that this call will ask for.
  virtual fault_action before_read(rpc::request const& request, std::uint64_t offset,
                                   std::uint64_t length) {
    static_cast<void>(request), static_cast<void>(offset), static_cast<void>(length);
    return fault_action::pass();
  }

  /// Called on the transfer thread before it asks the device to copy. It may wait.
  virtual void before_copy() {}

  /// Called on the window thread before it registers bytes [offset, offset + length) of a file.
  /// It may wait. `fail`: the device refuses. Every other answer counts as `pass`.
  virtual fault_action before_map(std::uint64_t offset, std::uint64_t length) {
    static_cast<void>(offset), static_cast<void>(length);
    return fault_action::pass();
  }

  /// Called before each write system call for dirty pages. `file`: the host's descriptor.
  /// After `fail`, the bytes that follow in the same run of pages fail, too.
  virtual fault_action before_write(int file, std::uint64_t offset, std::uint64_t length) {
    static_cast<void>(file), static_cast<void>(offset), static_cast<void>(length);
    return fault_action::pass();
  }

  /// Called before each fdatasync of `file`, the host's descriptor. `shorten` counts as `pass`.
  virtual fault_action before_sync(int file) {
    static_cast<void>(file);
    return fault_action::pass();
  }

  /// Called before an open that came through a ring, not before the host's own opens.
  /// `shorten` counts as `pass`.
  virtual fault_action before_open(std::string_view path) {
    static_cast<void>(path);
    return fault_action::pass();
  }
};

}  // namespace gpufs::testing

namespace gpufs::daemon {
// The daemon's short names.
using testing::fault_action;
using testing::fault_injector;
using testing::gate;
}  // namespace gpufs::daemon
