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
  if (!uses_windows(c)) return 0;
  auto const start = std::chrono::steady_clock::now();
  if (int const error = fs.advise(fd, 0, 0, advice::willneed); error < 0)
    throw std::runtime_error(fmt::format("advise: {}", error_text(error)));
  std::uint64_t const wanted = std::min((file_bytes + c.window_size - 1) / c.window_size, c.mapped_memory / c.window_size);
  constexpr std::chrono::seconds patience{10};
  auto const deadline = [&] { return std::chrono::steady_clock::now() + patience; };
  std::uint64_t mapped = 0;
  for (auto until = deadline(); mapped < wanted && std::chrono::steady_clock::now() < until;) {
    std::uint64_t const now = fs.stats().windows_mapped;
    if (now != mapped) until = deadline();
    mapped = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (mapped == 0 && wanted != 0) throw std::runtime_error("io_path=mapped: no window of the file was mapped within 10 s");
  return seconds_since(start);
}

}  // namespace gpufs::apps
