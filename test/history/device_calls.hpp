// Calls of a program that one kernel makes.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <test/history/program.hpp>
#include <test/history/recorder.hpp>

#include <string>
#include <vector>

namespace gpufs::history {

/// A call as the kernel sees it.
struct device_call {
  call_kind what;
  std::uint32_t number;  ///< in the program
  std::uint32_t caller;  ///< block or tile of the kernel
  std::uint32_t after;
  std::int32_t handle;
  std::int32_t flags;
  std::int64_t offset;
  std::uint64_t count;
  std::uint64_t place;  ///< of its bytes
  std::uint32_t slot;   ///< among the calls of its kernel
};

/// One kernel of a program: all blocks of one phase with one kernel number.
class device_part {
 public:
  /// Allocates all that the kernel needs, so that it can start under running kernels.
  /// @param callers  the numbers of its actors
  device_part(program const& p, std::vector<std::uint32_t> const& callers);

  void start(filesystem const& fs, recorder_ref const& to, buffer<char> const& path);
  void wait();
  /// Stores what its reads gave, as many bytes as the history says. Comes after wait().
  void fetch(history& h);

 private:
  void add(program const& p, std::size_t number, std::uint32_t caller);

  stream stream_;
  unsigned blocks_, threads_;
  bool tiles_;
  std::vector<device_call> calls_;
  std::vector<std::byte> memory_;
  buffer<device_call> device_calls_;
  buffer<std::byte> device_memory_;
  buffer<std::int32_t> errors_;
};

/// Loads the kernels. Called before any of them runs.
void load_kernels();

}  // namespace gpufs::history
