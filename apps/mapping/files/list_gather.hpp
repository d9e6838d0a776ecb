// Parts of a file for kernels, as a hand-written program brings them where the file does not fit
// into GPU memory: threads gather them in pinned memory, in two pieces in turn, one of which is
// copied and used while the other is read.
#pragma once

#include <gpufs/device.hpp>

#include <apps/mapping/files/work_files.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpufs::apps::workloads {

/// Words [first, end) of 8 bytes of a file.
struct word_run {
  std::uint64_t first, end;
};

/// One thread calls its members.
class list_gather {
 public:
  /// With `bytes` of GPU memory and as much pinned memory. Throws std::system_error naming the
  /// file, or device_error.
  list_gather(std::string const& path, std::uint64_t bytes);

  /// Calls use(words, count) with GPU memory for all words of the runs, in parts. What it launches
  /// on this_thread_stream() may use them. Throws as the constructor, and what `use` throws.
  void for_each_part(std::vector<word_run> const& runs,
                     std::function<void(std::uint64_t const*, std::uint64_t)> const& use);

 private:
  struct piece {
    explicit piece(std::uint64_t words) : pinned(words), device(words) {}
    pinned_buffer<std::uint64_t> pinned;
    buffer<std::uint64_t> device;
    event done;
  };
  struct part {
    std::uint64_t first, count, place;  // in the file and in the piece
  };

  open_file_of file_;
  std::uint64_t words_;  // of a piece
  std::array<piece, 2> pieces_;
};

}  // namespace gpufs::apps::workloads
