#include <apps/gpufs-stress/board.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

namespace gpufs::stress {

namespace {

std::size_t board_bytes(std::uint64_t cells) {
  return sizeof(board_header) + cells * sizeof(std::atomic<std::uint32_t>);
}

[[noreturn]] void fail(char const* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

board::board(std::uint64_t cells) : cells_(cells) {
  // Not close-on-exec: the round's process inherits it.
  fd_ = ::memfd_create("gpufs-stress", 0);
  if (fd_ < 0) fail("memfd_create");
  if (::ftruncate(fd_, static_cast<off_t>(board_bytes(cells))) != 0) fail("ftruncate of the board");
  map();
}

board::board(int fd, std::uint64_t cells) : fd_(fd), cells_(cells) { map(); }

board::~board() {
  ::munmap(memory_, board_bytes(cells_));
  ::close(fd_);
}

void board::map() {
  memory_ = ::mmap(nullptr, board_bytes(cells_), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory_ == MAP_FAILED) fail("mmap of the board");
}

std::span<std::atomic<std::uint32_t>> board::synced() const {
  auto* const first = reinterpret_cast<std::atomic<std::uint32_t>*>(
      static_cast<std::byte*>(memory_) + sizeof(board_header));
  return {first, cells_};
}

void board::report(std::string_view problem) const {
  board_header& h = header();
  std::uint32_t expected = 0;
  auto const length =
      static_cast<std::uint32_t>(std::clamp<std::size_t>(problem.size(), 1, sizeof h.problem));
  if (!h.problem_length.compare_exchange_strong(expected, length)) return;
  std::memcpy(h.problem, problem.data(), std::min<std::size_t>(problem.size(), length));
}

std::string_view board::problem() const {
  return {header().problem, header().problem_length.load()};
}

}  // namespace gpufs::stress
