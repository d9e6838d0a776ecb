// What a filesystem consists of: its endpoint on the device, and the daemon that serves it.
#pragma once

#include <gpufs/filesystem.hpp>
#include <gpufs/owner/block_file.hpp>
#include <gpufs/owner/device_drives.hpp>
#include <gpufs/owner/endpoint.hpp>
#include <gpufs/owner/layout.hpp>

#include <host-daemon/backend/attached_files.hpp>
#include <host-daemon/base/request_recorder.hpp>
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
  std::shared_ptr<testing::fault_injector> faults;   ///< null outside tests
  std::string no_trace;                              ///< why there is none, if there should be one
  std::shared_ptr<daemon::attached_files> attached;  ///< before the files of the host
  daemon::request_recorder requests;                 ///< of all but the daemon's own threads
  int device_number = current_device_number();
  owner::endpoint device;
  owner::device_drive_list kernel_drives;  ///< they end before `device`, whose memory they use
  std::unique_ptr<daemon::server> server;

  /// Takes the calling thread's injected faults. Throws as filesystem's constructor.
  explicit state(config const& c);
  ~state();
  state(state const&) = delete;
  state& operator=(state const&) = delete;

  /// Attaches a block file by a name. `keep`: memory that its members' controllers use.
  /// Throws std::invalid_argument if the name is in use.
  void serve_block_file(std::string const& name, std::shared_ptr<owner::block_file> const& file,
                        owner::device_drives::memory_list const& keep);

  [[nodiscard]] statistics counted() const;

  /// One line per page that a kernel has mapped and not given back.
  [[nodiscard]] std::vector<std::string> unreleased() const;

  /// Has windows registered that will be read, if the OS page cache has them by then. Length 0 =
  /// to the end of the file.
  void want_windows(int fd, std::uint64_t offset, std::uint64_t length) const;
};

}  // namespace gpufs
