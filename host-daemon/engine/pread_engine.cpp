// Reads with pread(2).
#include <host-daemon/engine/pread_engine.hpp>

#include <span>

namespace gpufs::daemon {

std::int64_t read_now(read_operation const& read) noexcept {
  auto const& from = *read.from;
  std::span const to{read.to, read.length};
  return from.past_cache != nullptr ? from.past_cache->read(to, read.offset)
                                    : from.file->read(to, read.offset);
}

std::optional<std::int64_t> pread_engine::submit(read_operation const& read) {
  return read_now(read);
}

}  // namespace gpufs::daemon
