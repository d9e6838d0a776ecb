#include <apps/common/map_windows.hpp>
#include <apps/common/program.hpp>
#include <apps/common/seconds_since.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace gpufs::apps {

double map_windows(filesystem& fs, int fd, std::uint64_t file_bytes) {
  config const& c = fs.settings();
  if (files_to_map(c) != mapped_files::all) return 0;
  auto const start = std::chrono::steady_clock::now();
  if (int const error = fs.advise(fd, 0, 0, advice::willneed); error < 0)
    throw std::runtime_error(fmt::format("advise: {}", error_text(error)));
  std::uint64_t const wanted =
      std::min((file_bytes + c.window_size - 1) / c.window_size, c.mapped_memory / c.window_size);
  // What will not be mapped, nobody says: a file that is too small or not in the OS page cache, a
  // file system where registering is refused.
  constexpr std::chrono::milliseconds patience{500};
  auto mapped = fs.stats().windows_mapped;
  auto last_progress = start;
  while (mapped < wanted && std::chrono::steady_clock::now() - last_progress < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto const now = fs.stats().windows_mapped;
    if (now != mapped) last_progress = std::chrono::steady_clock::now();
    mapped = now;
  }
  if (mapped < wanted)
    fmt::print(stderr, "io_path=mapped: {} of {} windows of the file are mapped\n", mapped, wanted);
  return std::chrono::duration<double>(last_progress - start).count();
}

}  // namespace gpufs::apps
