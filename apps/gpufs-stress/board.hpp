// What a round tells its supervisor through shared memory. It outlives the round's process, however
// that ends.
#pragma once

#include <apps/gpufs-stress/plan.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gpufs::stress {

/// The fixed part; an atomic<uint32_t> for each cell follows it: the version that gfsync has
/// returned for. Only the round writes, but for `end`; the supervisor reads.
struct board_header {
  std::atomic<std::uint64_t> operations;    ///< done so far; the sign of life
  std::atomic<std::uint64_t> kernel_bytes;  ///< that kernels have compared so far
  std::atomic<std::uint64_t> file_bytes;    ///< of the files, compared after the kernels
  std::atomic<std::uint32_t> finished;      ///< 1: the round has run to its end
  std::atomic<std::uint32_t> end;           ///< 1: the supervisor wants no further operations
  /// 1: the files are there, and the kernels may begin. The other process waits for it.
  std::atomic<std::uint32_t> files_made;
  std::atomic<std::uint32_t> problem_length;  ///< 0: none
  char problem[4096];                         ///< the first problem, in words
};

/// A mapping of the board, made by the supervisor and passed on as a descriptor.
class board {
 public:
  /// A new board for up to `cells` cells. Throws std::system_error.
  explicit board(std::uint64_t cells);
  /// The board behind an inherited descriptor. Throws std::system_error.
  board(int fd, std::uint64_t cells);
  ~board();
  board(board const&) = delete;
  board& operator=(board const&) = delete;

  [[nodiscard]] board_header& header() const { return *static_cast<board_header*>(memory_); }
  [[nodiscard]] std::span<std::atomic<std::uint32_t>> synced() const;
  [[nodiscard]] int descriptor() const { return fd_; }

  /// Stores the first problem of the round; later ones are dropped. Any thread calls.
  void report(std::string_view problem) const;
  [[nodiscard]] std::string_view problem() const;

 private:
  void map();

  int fd_ = -1;
  std::uint64_t cells_ = 0;
  void* memory_ = nullptr;
};

}  // namespace gpufs::stress
