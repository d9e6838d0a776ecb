// A member past the OS page cache has two descriptors of one file, whatever becomes of its path.
#include <test/support/files.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/block_namespace.hpp>

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace gpufs::nvme_controller;

namespace {

// The first open of `watched` puts `other` in its place.
std::string const* watched = nullptr;
std::string const* other = nullptr;

}  // namespace

// In place of the C library's.
extern "C" int open(char const* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  int const mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  auto const fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (watched != nullptr && *watched == path) {
    watched = nullptr;
    std::filesystem::rename(*other, path);
  }
  return fd;
}
// Fortified sources call this one.
extern "C" int __open_2(char const* path, int flags) { return open(path, flags); }

TEST_CASE("direct member: a path that leads to another file after the first open") {
  constexpr std::size_t page = 4096;
  gpufs::test::scratch_folder const folder;
  std::string const path = folder / "disk", new_file = folder / "new";
  std::ofstream(path) << std::string(page, 'a');
  std::ofstream(new_file) << std::string(page, 'b');
  watched = &path;
  other = &new_file;
  std::unique_ptr<file_namespace> disk;
  try {
    disk = std::make_unique<file_namespace>(path, 512, file_namespace::mode::read_write,
                                            file_namespace::page_cache::past);
  } catch (std::system_error const& e) {
    MESSAGE("skipped: " << e.what());
    return;
  }
  REQUIRE(watched == nullptr);
  alignas(page) static std::byte memory[page];
  segment const all{memory, page};
  REQUIRE(disk->descriptor_of_read(0, {&all, 1}) >= 0);  // past the page cache
  CHECK(disk->read(0, {&all, 1}) == 0);
  CHECK(memory[0] == std::byte{'a'});
}
