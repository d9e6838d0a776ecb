// A kernel that writes records for ever, for tests of what becomes of dirty pages when the program
// is told to end.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/testing/faults.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace gpufs::test {

/// Every block writes record after record, none of which gets into the file before drain(). The
/// kernel never ends: the process must, without destroying this.
class held_records {
 public:
  explicit held_records(std::string const& path);

  /// Returns once every block has written some records; dirty(path) is true from then on, for other
  /// processes.
  void wait_until_dirty();
  [[nodiscard]] static bool dirty(std::string const& path);

  /// Notes for problems() which records gwrite has returned for, and calls fs.sync().
  void drain();

  /// Empty if each record that drain() noted is in the file, else what is not. For other processes,
  /// once that one has ended.
  [[nodiscard]] static std::string problems(std::string const& path);

 private:
  std::shared_ptr<testing::gate> gate_;
  std::string path_;
  testing::filesystem fs_;
  pinned_buffer<std::uint64_t> done_;
  buffer<std::byte> scratch_;
};

}  // namespace gpufs::test
