// Reads with pread(2).
#include <host-daemon/base/profiler_range.hpp>
#include <host-daemon/engine/pread_engine.hpp>

#include <fmt/format.h>

#include <span>

namespace gpufs::daemon {

std::string text_of(std::span<read_operation const> reads) {
  std::uint64_t bytes = 0;
  bool one_file = true, direct = false;
  for (auto const& r : reads) {
    bytes += r.length;
    one_file &= r.from->file == reads[0].from->file;
    direct |= r.from->past_cache != nullptr;
  }
  auto const* const file = reads[0].from->file;
  return fmt::format("read {}: {} read{}, {} bytes, {}",
                     one_file && file != nullptr ? file->traced_name() : "several files",
                     reads.size(), reads.size() == 1 ? "" : "s", bytes, direct ? "direct" : "pull");
}

std::int64_t read_now(read_operation const& read) noexcept {
  auto const& from = *read.from;
  profiler_range const range{[&] { return text_of({&read, 1}); }};
  std::span const to{read.to, read.length};
  return from.past_cache != nullptr ? from.past_cache->read(to, read.offset)
                                    : from.file->read(to, read.offset);
}

std::optional<std::int64_t> pread_engine::submit(read_operation const& read) {
  return read_now(read);
}

}  // namespace gpufs::daemon
