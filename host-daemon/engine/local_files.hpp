// The files that one daemon thread has borrowed from the registry. It finds them without a lock or
// a shared reference count. It gives them back when their descriptors are closed, so that the host
// files are closed, too.
#pragma once

#include <host-daemon/engine/io_engine.hpp>
#include <host-daemon/files/file_registry.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::daemon {

/// Belongs to one thread.
class local_files {
 public:
  local_files(file_registry& registry, io_engine& engine)
      : registry_{registry},
        engine_{engine},
        seen_closes_{registry.closes()},
        current_(registry.capacity()) {}
  ~local_files() { give_all_back(); }
  local_files(local_files const&) = delete;
  local_files& operator=(local_files const&) = delete;

  /// Returns the file of an open descriptor, for one more request. Null: the descriptor is not
  /// open. Throws std::bad_alloc.
  [[nodiscard]] local_file* use(std::int32_t descriptor);

  /// Ends a request that use() counted.
  void done(local_file* file) noexcept;

  /// Gives back the files that were closed since the last call, but for those that requests still
  /// use. Cheap if there are none.
  void refresh() noexcept {
    if (registry_.closes() != seen_closes_) give_closed_back();
  }

  /// Gives back all files that no request uses.
  void give_all_back() noexcept;

 private:
  void give_closed_back() noexcept;
  void retire(local_file* file) noexcept;
  void drop(local_file* file) noexcept;

  file_registry& registry_;
  io_engine& engine_;
  std::uint64_t seen_closes_;
  std::vector<local_file*> current_;  // by descriptor index
};

}  // namespace gpufs::daemon
