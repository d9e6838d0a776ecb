#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/seconds_since.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace gpufs::apps {

double register_windows(filesystem& fs, int fd, std::uint64_t file_bytes) {
  config const& c = fs.settings();
  if (files_to_register(c) != registered_files::all) return 0;
  auto const start = std::chrono::steady_clock::now();
  if (int const error = fs.advise(fd, 0, 0, advice::willneed); error < 0)
    throw std::runtime_error(fmt::format("advise: {}", error_text(error)));
  std::uint64_t const wanted = std::min((file_bytes + c.file_window_size - 1) / c.file_window_size,
                                        c.registered_memory / c.file_window_size);
  // The library does not report windows that it will not register: those of a file that is too
  // small or not in the OS page cache, or of a file system that refuses.
  constexpr std::chrono::milliseconds patience{500};
  auto registered = fs.stats().windows_registered;
  auto last_progress = start;
  while (registered < wanted && std::chrono::steady_clock::now() - last_progress < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto const now = fs.stats().windows_registered;
    if (now != registered) last_progress = std::chrono::steady_clock::now();
    registered = now;
  }
  if (registered < wanted)
    print_error("io_path=registered: {} of {} windows of the file are registered\n", registered,
                wanted);
  return std::chrono::duration<double>(last_progress - start).count();
}

}  // namespace gpufs::apps
