// What a filesystem consists of: the memory that it shares with kernels and with the daemon, and
// the daemon.
#pragma once

#include <gpufs/filesystem.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/owner/subsystems.hpp>

#include <host-daemon/serve/server.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace gpufs {

struct filesystem::state {
  pid_t process;  ///< that made it, and that has its threads
  config settings;
  owner::layout sizes;
  std::shared_ptr<testing::fault_injector> faults;  ///< null outside tests
  owner::subsystems subsystems;
  buffer<fs_ref> handle;  ///< `ref` in GPU memory
  fs_ref ref;
  std::unique_ptr<daemon::transfer_engine> transfers;
  std::unique_ptr<daemon::window_registrar> windows;
  std::unique_ptr<daemon::server> server;

  /// Takes the calling thread's injected faults. Throws as filesystem's constructor.
  explicit state(config const& c);
  ~state();
  state(state const&) = delete;
  state& operator=(state const&) = delete;

  [[nodiscard]] statistics counted() const;

  /// One line per page that a kernel has mapped and not given back.
  [[nodiscard]] std::vector<std::string> unreleased() const;

  /// Has windows registered that will be read, if the OS page cache has them by then. Length 0 =
  /// to the end of the file.
  void want_windows(int fd, std::uint64_t offset, std::uint64_t length) const;

 private:
  void make_transfers();
  void make_windows();
};

}  // namespace gpufs
