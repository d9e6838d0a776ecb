// Validation of a config, and what follows from it.
#include <gpufs/config.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <fmt/format.h>

namespace gpufs {

using owner::reject;

registered_files files_to_register(config const& c) {
  if (c.registered_memory == 0) return registered_files::none;
  return c.path == io_path::registered  ? registered_files::all
         : c.path == io_path::automatic ? registered_files::noticed
                                        : registered_files::none;
}

void validate(config const& c) {
  // A value that was set in code passes the same check as its text would.
  config checked;
  for (auto const& s : settings()) s.assign(checked, s.print(c), s.key);

  if (c.cache_size / c.page_size < 8) {
    reject("cache_size", format_size(c.cache_size),
           fmt::format("at least 8 pages, {} with page_size={}", format_size(8 * c.page_size),
                       format_size(c.page_size)));
  }
  // Frames have numbers of 32 bits on the device.
  if (constexpr std::uint64_t most_pages = 1ull << 31; c.cache_size / c.page_size > most_pages) {
    reject("cache_size", format_size(c.cache_size),
           fmt::format("at most {} pages, {} with page_size={}", most_pages,
                       format_size(most_pages * c.page_size), format_size(c.page_size)));
  }
  bool const fixed = c.prefetch_size != prefetch_automatic;
  if (fixed && c.prefetch_size % c.page_size != 0) {
    reject("prefetch_size", format_size(c.prefetch_size),
           fmt::format("a multiple of page_size={}", format_size(c.page_size)));
  }
  if (c.page_size > c.staging_size / 8) {
    reject("staging_size", format_size(c.staging_size),
           fmt::format("at least {}, 8 times page_size={}", format_size(8 * c.page_size),
                       format_size(c.page_size)));
  }
  if (std::uint64_t const request = c.page_size + c.prefetch_size;
      fixed && c.prefetch_size != 0 && request > c.prefetch_memory / 8) {
    reject("prefetch_memory", format_size(c.prefetch_memory),
           fmt::format("at least {}: 8 times page_size={} plus prefetch_size={}",
                       format_size(8 * request), format_size(c.page_size),
                       format_size(c.prefetch_size)));
  }
  // Less would be exceeded: buffers hold whole pages.
  if (!fixed && c.prefetch_memory < c.page_size) {
    reject("prefetch_memory", format_size(c.prefetch_memory),
           fmt::format("at least page_size={}, or prefetch_size=0 for no readahead",
                       format_size(c.page_size)));
  }
  if (c.write_memory != 0 && c.write_memory < c.page_size) {
    reject("write_memory", format_size(c.write_memory),
           fmt::format("at least page_size={}, or 0 to write no files", format_size(c.page_size)));
  }
  bool const maps = files_to_register(c) != registered_files::none;
  if (maps && c.file_window_size < c.page_size) {
    reject("file_window_size", format_size(c.file_window_size),
           fmt::format("at least page_size={}", format_size(c.page_size)));
  }
  if (maps && c.registered_memory < c.file_window_size) {
    reject("registered_memory", format_size(c.registered_memory),
           fmt::format("0, or at least file_window_size={}", format_size(c.file_window_size)));
  }
}

}  // namespace gpufs
