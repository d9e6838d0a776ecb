// What a filesystem has on one device: the memory that it shares with kernels and with the daemon,
// and the daemon's threads that work for that device alone.
#pragma once

#include <gpufs/owner/layout.hpp>
#include <gpufs/owner/subsystems.hpp>

#include <host-daemon/serve/endpoint.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::owner {

/// Belongs to the device that was current when it was made. The filesystem's daemon serves it, and
/// must end before it.
class endpoint {
 public:
  /// `faults`, if given, and `requests` must outlive it. Throws as filesystem's constructor.
  endpoint(config const& settings, layout const& sizes, testing::fault_injector* faults,
           daemon::request_recorder& requests);
  endpoint(endpoint const&) = delete;
  endpoint& operator=(endpoint const&) = delete;

  [[nodiscard]] fs_ref const& ref() const noexcept { return ref_; }
  /// What the daemon gets.
  [[nodiscard]] daemon::endpoint served() const noexcept {
    return {ref_.link.shared, transfers_.get(), windows_.get()};
  }
  /// Null: files are not registered.
  [[nodiscard]] daemon::window_registrar* windows() const noexcept { return windows_.get(); }

  template <class Owner>
  [[nodiscard]] Owner const& get() const {
    return subsystems_.get<Owner>();
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const {
    return subsystems_.metadata_bytes() + handle_.bytes();
  }
  [[nodiscard]] std::uint64_t pinned_bytes() const {
    return subsystems_.pinned_bytes() + (windows_ ? windows_->bytes() : 0);
  }

 private:
  void make_transfers(config const& settings, layout const& sizes, testing::fault_injector* faults);
  void make_windows(config const& settings, layout const& sizes, testing::fault_injector* faults,
                    daemon::request_recorder& requests);

  subsystems subsystems_;
  buffer<fs_ref> handle_;  // `ref_` in GPU memory
  fs_ref ref_;
  std::unique_ptr<daemon::transfer_engine> transfers_;
  std::unique_ptr<daemon::window_registrar> windows_;
};

}  // namespace gpufs::owner
