// Moves of bytes between files and GPU memory, as a good hand-written program makes them: threads,
// pinned pieces of 4 MiB, two for each thread, and copies that run while the next piece is read or
// written.
#pragma once

#include <gpufs/device.hpp>

#include <apps/mapping/files/work_files.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpufs::apps::workloads {

/// All bytes of a file or of pageable memory, and of device memory.
struct whole_move {
  open_file_of const* file;
  std::byte* device;
  std::uint64_t bytes;
  std::byte* memory = nullptr;  ///< store(): where they go instead of the file
};

class file_pipeline {
 public:
  /// With pinned memory and a stream for each of io_threads() threads. Throws device_error.
  file_pipeline();

  /// Return when all bytes have arrived. One thread calls. Throw std::system_error naming the file,
  /// or device_error.
  void load(std::span<whole_move const> moves);
  void store(std::span<whole_move const> moves);

 private:
  static constexpr std::uint64_t piece_bytes = 4 << 20;

  struct piece {
    whole_move const* of = nullptr;
    std::uint64_t offset = 0, bytes = 0;
  };
  struct slot {
    pinned_buffer<std::byte> bytes{piece_bytes};
    event done;
    piece holds;
  };
  struct lane {
    stream on;
    std::array<slot, 2> slots;
  };

  [[nodiscard]] static std::vector<piece> pieces_of(std::span<whole_move const> moves);
  static void write_piece(slot& s);

  std::vector<lane> lanes_;
};

}  // namespace gpufs::apps::workloads
