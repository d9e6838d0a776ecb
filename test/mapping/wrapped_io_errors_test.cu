// Wrapped calls on memory whose bytes cannot be had at first. A suite of its own: its pread() takes
// the library's calls, behind the wrappers.
#include <gpufs/mapping.hpp>

#include <test/mapping/named_file.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20;

/// Told the offset of each read before. Returns an error, or 0: read.
std::function<int(std::uint64_t)> on_read;

// By its address, so that compilers make no other call of it.
void* (*volatile move_memory)(void*, void const*, std::size_t) = &std::memmove;

}  // namespace

extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  if (int const error = on_read ? on_read(std::uint64_t(offset)) : 0; error != 0) {
    errno = error;
    return -1;
  }
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}

TEST_CASE("wrapped io: memmove() goes on where a piece could not be had, and begins nothing anew") {
  struct move {
    std::uint64_t to, from, fails_from, fails_below;
  };
  // Bytes go by pieces of 4 MiB. A read that a later one needs fails once: for the source of the
  // second piece, backwards and forwards, and for a target whose source has been taken already.
  for (auto const& [to, from, fails_from, fails_below] :
       {move{mebi, 0, 4 * mebi, 8 * mebi}, move{0, mebi, 5 * mebi, 9 * mebi},
        move{5 * mebi, 0, 11 * mebi, 13 * mebi}}) {
    CAPTURE(to);
    CAPTURE(from);
    constexpr std::uint64_t count = 4 * mebi, moved = 11 * mebi;
    std::vector<std::uint32_t> expected(count);
    std::iota(expected.begin(), expected.end(), 3u);
    named_file const file(expected);
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::read_write, .eager = false});
    std::atomic<int> failures{0};
    on_read = [&, first = fails_from, end = fails_below](std::uint64_t offset) {
      return first <= offset && offset < end && failures.fetch_add(1) == 0 ? EIO : 0;
    };
    errno = 5;
    move_memory(m.as<char>() + to, m.as<char>() + from, moved);
    CHECK(errno == 5);
    on_read = nullptr;
    CHECK(failures != 0);
    auto* const bytes = reinterpret_cast<char*>(expected.data());
    std::memmove(bytes + to, bytes + from, moved);
    CHECK(std::memcmp(m.data(), bytes, m.size()) == 0);
    CHECK(m.unmap() == 0);
    CHECK(file.content() == expected);
  }
}
