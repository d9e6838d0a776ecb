// A gpufs::mapping with what Python needs around it: an end that waits for users.
#pragma once

#include <gpufs/mapping.hpp>

#include <nanobind/nanobind.h>
#include <python/src/errors.hpp>
#include <python/src/gil.hpp>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace gpufs::python {

/// A gpufs::mapping, the calls that use it, and how many tensors see its memory. Any thread calls
/// the members, with the GIL.
class mapped {
 public:
  mapped(mapping object, std::string name, bool only_read, int device);
  ~mapped();
  mapped(mapped const&) = delete;
  mapped& operator=(mapped const&) = delete;

  /// For calls that do not give the GIL away.
  /// Throws ValueError: closed. Throws OSError (EPERM): a child of fork().
  mapping& object();

  /// For calls that have a counted_use, with or without the GIL.
  [[nodiscard]] mapping const& used_object() const { return object_; }

  /// A call that close() waits for.
  class counted_use {
   public:
    /// Throws as object().
    explicit counted_use(mapped& of);
    /// Any thread, with or without the GIL.
    ~counted_use();
    counted_use(counted_use const&) = delete;
    counted_use& operator=(counted_use const&) = delete;

   private:
    mapped& of_;
  };

  /// Runs `act` on the object without the GIL. close() waits for it.
  /// Throws as object(), and OSError for a result other than 0.
  template <class Act>
  void run(Act const& act) {
    int error;
    {
      std::optional<counted_use> use(std::in_place, *this);
      without_gil const release;
      error = act(object_);
      use.reset();  // here: the GIL may not come any more
    }
    if (error != 0) throw_os_error(error, std::strerror(-error), name_);
  }

  /// run() for what waits for kernels that use the object. Throws OSError (EBUSY) in a thread whose
  /// own declaration is open, as it would wait for ever.
  template <class Act>
  void run_behind_kernels(Act const& act) {
    refuse_in_declaration();
    run(act);
  }

  /// Waits for the calls of other threads. Does nothing in a child of fork(). Throws BufferError if
  /// tensors see the memory or a declaration of this thread is open. Throws OSError: bytes are
  /// lost.
  void close();

  /// The memory as a tensor of bytes, for the host or for the device.
  nanobind::object bytes(std::shared_ptr<mapped> const& self, bool on_device);

  /// Has at() find it while it is open.
  static void note(std::shared_ptr<mapped> const& m);
  /// The open mapping of this process that has the address, or null.
  [[nodiscard]] static std::shared_ptr<mapped> at(void const* address);

  /// From declare() to undeclare() a kernel that `by` is about to launch uses the object.
  void declare(std::thread::id by);
  void undeclare(std::thread::id by);

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] bool only_read() const { return only_read_; }

 private:
  [[nodiscard]] bool is_declared_here() const;
  void refuse_in_declaration() const;

  mapping object_;
  std::string name_;
  bool only_read_;
  int device_;
  pid_t process_;
  // Guarded by the GIL.
  bool closed_ = false;
  std::vector<std::thread::id> declared_;  // an element for each open declaration

  std::mutex mutex_;  // guards what follows; nobody waits for the GIL within
  std::condition_variable ended_;
  unsigned running_ = 0;
  bool unmapped_ = false;

  std::atomic<unsigned> seen_{0};
};

}  // namespace gpufs::python
