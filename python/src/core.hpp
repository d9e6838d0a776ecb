// A gpufs::filesystem with what Python needs around it: an end that waits for users, buffers that
// are used again, the device's number.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace gpufs::python {

/// From one look for signals to the next, in waits that handle them.
inline constexpr auto signal_interval = std::chrono::milliseconds(50);

/// Makes a device current in this thread while it lives. Throws device_error.
class device_scope {
 public:
  explicit device_scope(int number);
  ~device_scope();
  device_scope(device_scope const&) = delete;
  device_scope& operator=(device_scope const&) = delete;

 private:
  int before_, now_;
};

/// What a transfer needs on the device.
struct workspace {
  workspace();
  /// Makes room for so much. Throws device_error.
  void reserve(std::uint64_t records, std::uint64_t staged_bytes);

  stream own;
  event ended;
  buffer<std::uint64_t> offsets;
  buffer<std::byte> staging;
  buffer<std::uint64_t> state;  ///< record_job::failure and record_job::stop
};

class transfer;

/// Any thread calls. The functions that wait are called without the GIL.
class core : public std::enable_shared_from_this<core> {
 public:
  /// Throws as gpufs::filesystem, and device_error: no such device, or it cannot be used.
  core(config const& settings, std::optional<int> device);
  /// As close(). A failure is told on stderr.
  ~core();
  core(core const&) = delete;
  core& operator=(core const&) = delete;

  /// Waits for transfers and other calls, writes dirty pages, frees everything. A child of fork()
  /// forgets its copy. Returns 0, or -errno: bytes that could not be written are lost.
  /// Throws std::runtime_error as transfer::refuse_in_handler(); then it is not closed. Throws
  /// device_error: it is closed, and bytes may be lost.
  int close();
  [[nodiscard]] bool closed() const;
  [[nodiscard]] int device() const { return device_; }

  /// True in a child of fork(), which must leave everything as it is.
  [[nodiscard]] bool in_child() const;
  /// Throws std::system_error (EPERM) in a child of fork().
  void refuse_in_child() const;

  /// Keeps the filesystem while it lives. With a descriptor, finish_transfers() waits for its end.
  class use {
   public:
    /// Throws nanobind::value_error: closed. Throws std::system_error: a child of fork().
    explicit use(core& of, std::optional<int> fd = std::nullopt);
    ~use();
    use(use const&) = delete;
    use& operator=(use const&) = delete;
    filesystem* operator->() const { return of_.files_.get(); }
    filesystem& operator*() const { return *of_.files_; }

   private:
    core& of_;
    std::optional<int> fd_;
  };

  /// A `use` for the length of a call, with the filesystem's device current.
  class call : public use {
   public:
    /// Throws as `use`, and device_error.
    explicit call(core& of) : use(of), device_(of.device_) {}

   private:
    device_scope device_;
  };

  /// A workspace that no other transfer has. The caller has a `use`.
  [[nodiscard]] std::unique_ptr<workspace> take_workspace();
  void return_workspace(std::unique_ptr<workspace> w);

  /// Waits for the transfers of a descriptor, or for all, and handles signals meanwhile: after one
  /// whose handler raises, their kernels are told to stop. The caller holds the GIL. Does nothing
  /// in a child of fork(). Throws what the handler raised, and std::runtime_error as close().
  void finish_transfers(std::optional<int> fd);

  /// Notes the path of an open, for texts of errors. Opens in the same way share a descriptor.
  void note_open(int fd, std::string const& path);
  /// Forgets one open, and returns its path, or nothing.
  std::string forget_open(int fd);
  /// The path of an open descriptor, or nothing.
  [[nodiscard]] std::string path_of(int fd) const;

  /// close() finishes it. Throws nanobind::value_error: close() has begun.
  void add(std::shared_ptr<transfer> const& t);

 private:
  struct opened {
    std::string path;  // of the latest open
    unsigned times = 0;
  };
  void end_use(std::optional<int> fd);
  void finish_named(std::optional<int> fd);
  int end();
  static void finish(std::vector<std::weak_ptr<transfer>> const& all) noexcept;

  std::unique_ptr<filesystem> files_;
  pid_t process_;
  int device_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable unused_;
  unsigned users_ = 0;
  std::map<int, unsigned> moving_;  // uses with a descriptor
  bool closing_ = false, has_ended_ = false;
  std::vector<std::unique_ptr<workspace>> idle_;
  std::vector<std::weak_ptr<transfer>> transfers_;
  std::map<int, opened> opened_;
};

}  // namespace gpufs::python
