// The window thread: has windows of warm files mapped for the device, and retires them.
#pragma once

#include <gpufs/config.hpp>

#include <host-daemon/fault_injector.hpp>
#include <host-daemon/file_registry.hpp>
#include <host-daemon/io_hooks.hpp>
#include <host-daemon/note_list.hpp>
#include <host-daemon/window_mapper.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace gpufs::daemon {

/// The version of a file that may be mapped: 0 if `descriptor` is not open, the file is or was
/// written here, or is none of `which`.
[[nodiscard]] std::uint64_t uid_to_map(rpc::shared_region const& region, std::int32_t descriptor,
                                       mapped_files which) noexcept;

struct window_settings {
  std::uint64_t window_bytes = 16 << 20;   ///< a power of two, a multiple of the host's page size
  std::uint64_t budget = 8ull << 30;       ///< most bytes mapped at once
  std::chrono::milliseconds turn{20};      ///< how often to look whether room can be made
  mapped_files which = mapped_files::all;  ///< whose callers touched() expects; unless all, nobody
                                           ///< is told what cannot be mapped
  cachestat_function cachestat;            ///< in place of cachestat(2)
};

/// Nobody waits for this thread: daemon threads leave a word about what they read, and answer by
/// staging as ever. So it may stay in a device call for as long as a kernel runs; meanwhile no
/// further window is mapped.
///
/// A window is mapped when bytes of it were read through the OS page cache, which has (nearly) all
/// of it. It is taken away from kernels when windows that are read need its room, oldest first, or
/// once a newer version of its file is read. What is taken away stays mapped, and counts, until
/// unmapping it need not wait for a kernel, as far as one can know.
class window_registrar {
 public:
  /// Starts the thread; throws std::system_error if there is none to be had. `faults`, if given,
  /// must outlive it.
  window_registrar(std::unique_ptr<window_mapper> mapper, window_settings settings,
                   fault_injector* faults = nullptr);

  /// Unmaps everything. No kernel may use the table any more, and no daemon thread this object.
  ~window_registrar();
  window_registrar(window_registrar const&) = delete;
  window_registrar& operator=(window_registrar const&) = delete;

  /// Bytes [offset, offset + length) (at least 1) of version `uid` of a file are being read through
  /// the OS page cache. By any thread; costs a load once the window is known, and never waits.
  /// `uid` was valid before: what is mapped is the file as it is now, or later. patience::some:
  /// waits for other threads that say so at the same time, lest the word be lost.
  enum class patience { none, some };
  void touched(std::uint64_t uid, std::shared_ptr<host_file const> const& file,
               std::uint64_t offset, std::uint64_t length, patience wait = patience::none) noexcept;

  // Thread-safe.
  [[nodiscard]] mapped_files which() const noexcept { return settings_.which; }
  [[nodiscard]] std::uint64_t mapped() const noexcept {
    return mapped_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t retired() const noexcept {
    return retired_count_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return in_use_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::vector<std::string> notes() const { return notes_.all(); }

  /// Files shorter than this part of a window are left alone: mapping them costs more than reading
  /// them.
  static constexpr std::uint64_t smallest_part = 16;

 private:
  struct offer {
    std::uint64_t uid, window;
    std::shared_ptr<host_file const> file;
  };
  struct live_window {
    std::uint64_t uid, window, device, inode, entry, charge;
    mapped_window mapped;
  };

  static std::uint64_t key_of(std::uint64_t uid, std::uint64_t window) noexcept;
  std::atomic<std::uint64_t>& asked(std::uint64_t key) noexcept {
    return asked_[key % asked_.size()];
  }

  void serve() noexcept;
  void consider(offer const& o);
  [[nodiscard]] bool is_superseded(struct ::stat const& status, offer const& o);
  [[nodiscard]] bool is_warm(int fd, std::uint64_t begin, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t free_entry(std::uint64_t uid, std::uint64_t window) const noexcept;
  void map(offer const& o, struct ::stat const& status, std::uint64_t bytes, std::uint64_t charge,
           std::uint64_t entry);
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

  // What was asked for, by hash: whoever finds his window here need not ask. Entries order nothing.
  std::array<std::atomic<std::uint64_t>, 4096> asked_{};
  std::atomic<bool> off_{false};   // the device refuses
  std::atomic<bool> full_{false};  // offers_ takes no more

  std::mutex mutex_;  // guards the two below
  std::deque<offer> offers_;
  bool stop_ = false;
  std::condition_variable changed_;

  // The thread's.
  std::list<live_window> live_;                // oldest first
  std::list<live_window> retired_;             // to be unmapped
  std::list<live_window> kept_;                // that cannot be taken away
  std::vector<bool> taken_;                    // by entry
  std::unordered_set<std::uint64_t> refused_;  // devices whose file systems do not map
  std::uint64_t wanted_ = 0;                   // bytes of windows for which there was no room
  bool put_off_ = false;                       // some may ask again later
  unsigned turns_ = 0;

  std::atomic<std::uint64_t> mapped_{0}, retired_count_{0}, in_use_{0};
  std::thread thread_;
};

}  // namespace gpufs::daemon
