// Reads with pread(2).
#include <host-daemon/engine/pread_engine.hpp>

#include <cerrno>

#include <unistd.h>

namespace gpufs::daemon {

std::optional<std::int64_t> pread_engine::submit(read_operation const& read) {
  auto const bytes = ::pread(read.from->fd, read.to, read.length, off_t(read.offset));
  return bytes >= 0 ? std::int64_t(bytes) : -std::int64_t(errno);
}

}  // namespace gpufs::daemon
