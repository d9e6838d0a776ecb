// A kernel that reads until it is told to stop, from a file that says where each byte belongs, for
// tests of what happens meanwhile.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <test/support/files.hpp>

#include <cstdint>
#include <string>

namespace gpufs::test {

inline constexpr std::uint64_t numbered_page = 512;

/// A file whose page p consists of bytes p.
std::string make_numbered(scratch_folder const& folder, unsigned pages);

/// A timeout that is short enough for a test. No wait for an honest answer should reach it; those
/// that do are to be repeated.
inline constexpr std::uint32_t impatient_ms = 300;

/// A filesystem of `frames` such pages and 16 page channels, with that timeout.
config impatient(std::uint64_t frames);

/// A kernel under way whose blocks read random pages of a numbered file, each as often as it takes
/// to get an answer in time.
class reading_kernel {
 public:
  /// Every block reads at least `rounds` times.
  reading_kernel(filesystem& fs, int fd, std::uint32_t pages, unsigned blocks,
                 std::uint32_t rounds);
  void wait_until_begun();
  /// Lets the kernel end; returns how much was wrong.
  std::uint64_t finish();

 private:
  pinned_buffer<std::uint32_t> flags_;
  buffer<std::byte> out_;
  buffer<std::uint64_t> wrong_;
  unsigned blocks_;
};

}  // namespace gpufs::test
