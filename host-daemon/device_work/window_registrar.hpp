// The window thread: registers file windows of cached files for the device, and retires them.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/rpc/wire_format.hpp>
#include <gpufs/testing/faults.hpp>

#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/io_hooks.hpp>
#include <host-daemon/base/note_list.hpp>
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/device_work/offer_queue.hpp>
#include <host-daemon/device_work/window_demand.hpp>
#include <host-daemon/device_work/window_mapper.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <sys/stat.h>

namespace gpufs::daemon {

/// The windows of a file that may be registered.
struct registrable_file {
  std::uint64_t version;  ///< 0: none may be
  /// Windows are registered as soon as they are read. Else: once reads at random have paid for it.
  bool at_once;
};

/// Returns how windows of the file may be registered. None may be if `descriptor` is not open, if
/// the file is or was written here, or if it is not one of `which`.
///
/// all      All files, at once.
/// noticed  Files advised random, at once. Files without advice, when they have paid for it.
///          Files advised sequential are none of them.
[[nodiscard]] registrable_file may_register(rpc::shared_region const& region,
                                            std::int32_t descriptor,
                                            registered_files which) noexcept;

struct window_settings {
  std::uint64_t window_bytes = 16 << 20;  ///< a power of two, a multiple of the host's page size
  std::uint64_t budget = 8ull << 30;      ///< most bytes mapped at once
  std::chrono::milliseconds turn{20};     ///< how often to look whether room can be made
  /// The files that touched() and read_at_random() are called for. Unless `all`, notes() is silent
  /// about files that cannot be registered.
  registered_files which = registered_files::all;
  cachestat_function cachestat;          ///< in place of cachestat(2)
  request_recorder* requests = nullptr;  ///< where registrations are recorded, null: nowhere
};

/// No request waits for this thread. Daemon threads offer it the windows that they read, and answer
/// by staging as ever. So it may stay in a device call as long as a kernel runs. Meanwhile no
/// further window is registered.
///
/// A window is registered when it was offered and the OS page cache has (nearly) all of it. It is
/// retired, oldest first, when other windows need its room, or once a newer version of its file is
/// read. A retired window stays mapped, and counts, until its unmapping will not wait for a kernel,
/// as far as the host can tell.
class window_registrar {
 public:
  /// Starts the thread. Throws std::system_error if the system gives no thread. `faults`, if given,
  /// must outlive it.
  window_registrar(std::unique_ptr<window_mapper> mapper, window_settings settings,
                   fault_injector* faults = nullptr);

  /// Unmaps everything. No kernel may use the table any more, and no daemon thread this object.
  ~window_registrar();
  window_registrar(window_registrar const&) = delete;
  window_registrar& operator=(window_registrar const&) = delete;

  /// Offers the windows of bytes [offset, offset + length) (at least 1) of version `version` of a
  /// file, which are being read through the OS page cache. Any thread calls; it never waits for
  /// this thread. Once the window is known, a call costs one load. `version` was valid before the
  /// call. The window shows the file as it is now, or later.
  void touched(std::uint64_t version, std::shared_ptr<stored_file const> const& file,
               std::uint64_t offset, std::uint64_t length) noexcept;

  /// As touched(). `for_elements`: lanes want elements of it. But a window is offered once such
  /// reads have paid for it (window_demand). After it was retired, or found no room, they must pay
  /// for it anew.
  void read_at_random(std::uint64_t version, std::shared_ptr<stored_file const> const& file,
                      std::uint64_t offset, std::uint64_t length, bool for_elements) noexcept;

  // Thread-safe.
  [[nodiscard]] registered_files which() const noexcept { return settings_.which; }
  [[nodiscard]] std::uint64_t registered() const noexcept {
    return registered_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t retired() const noexcept {
    return retired_count_.load(std::memory_order_relaxed);
  }
  /// Nanoseconds that the device took to register windows, or to refuse.
  [[nodiscard]] std::uint64_t registering_ns() const noexcept {
    return registering_ns_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return in_use_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::vector<std::string> notes() const { return notes_.all(); }

  /// Files shorter than this part of a window are left alone: to register them costs more than to
  /// read them.
  static constexpr std::uint64_t smallest_part = 16;

 private:
  struct live_window {
    std::uint64_t version, window, device, inode, entry, charge;
    registered_window mapped;
  };

  static std::uint64_t key_of(std::uint64_t version, std::uint64_t window) noexcept;
  std::atomic<std::uint64_t>& asked(std::uint64_t key) noexcept {
    return asked_[key % asked_.size()];
  }

  [[nodiscard]] bool is_known(std::uint64_t key) noexcept {
    return asked(key).load(std::memory_order_relaxed) == key;
  }
  [[nodiscard]] bool takes_offers() const noexcept {
    return !off_.load(std::memory_order_relaxed) && !offers_.seems_full();
  }
  bool offer(std::uint64_t version, std::uint64_t window,
             std::shared_ptr<stored_file const> const& file) noexcept;

  void serve() noexcept;
  void consider(window_offer const& o);
  [[nodiscard]] bool is_superseded(struct ::stat const& status, window_offer const& o);
  [[nodiscard]] bool is_warm(int fd, std::uint64_t begin, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t free_entry(std::uint64_t version,
                                         std::uint64_t window) const noexcept;
  void map(window_offer const& o, struct ::stat const& status, std::uint64_t bytes,
           std::uint64_t charge, std::uint64_t entry);
  window_mapper::outcome map_for_device(window_offer const& o, std::uint64_t bytes,
                                        registered_window& out, std::string& why);
  void turn_off(std::string const& why) noexcept;
  void note(std::string const& key, char const* what, std::string const& why) noexcept;
  [[nodiscard]] bool has_work_left() const noexcept {
    return !retired_.empty() || wanted_ != 0 || put_off_;
  }
  void make_room() noexcept;
  void retire(std::list<live_window>::iterator w) noexcept;
  void put_off() noexcept { put_off_ = true; }

  std::unique_ptr<window_mapper> mapper_;
  window_settings settings_;
  fault_injector* faults_;
  note_list notes_;

  // The windows that were offered, by hash. A thread that finds its window here need not offer it.
  // Entries order nothing.
  std::array<std::atomic<std::uint64_t>, 4096> asked_{};
  window_demand demand_;
  std::atomic<bool> off_{false};  // the device refuses
  std::atomic<bool> stop_{false};
  offer_queue offers_;

  // The thread alone uses the rest.
  std::list<live_window> live_;                // oldest first
  std::list<live_window> retired_;             // to be unmapped
  std::list<live_window> kept_;                // could not be taken away
  std::vector<bool> taken_;                    // by entry
  std::unordered_set<std::uint64_t> refused_;  // devices whose file systems do not map
  std::uint64_t wanted_ = 0;                   // bytes of windows that found no room
  bool put_off_ = false;                       // some windows may be offered again later
  unsigned turns_ = 0;

  std::atomic<std::uint64_t> registered_{0}, retired_count_{0}, in_use_{0}, registering_ns_{0};
  std::thread thread_;
};

}  // namespace gpufs::daemon
