// Widening reads for O_DIRECT.
#include <host-daemon/engine/direct_read.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpufs::daemon {

namespace {

std::uint64_t down(std::uint64_t n, std::uint64_t alignment) { return n & ~(alignment - 1); }
std::uint64_t up(std::uint64_t n, std::uint64_t alignment) {
  return down(n + alignment - 1, alignment);
}

}  // namespace

bool direct_read::plan(direct_alignment aligned, std::uint64_t offset, std::uint64_t length,
                       std::byte* to, std::uint64_t room) {
  std::uint64_t const unit = aligned.offset;
  std::uint64_t const begin = down(offset, unit);
  std::uint64_t end = up(offset + length, unit);
  to_ = to;
  offset_ = begin;
  skip_ = std::uint32_t(offset - begin);
  if (end - begin > room)
    end = std::max(down(offset + length, unit), begin);  // the last part by a detour of its own
  detour_ =
      skip_ != 0 || end == begin || reinterpret_cast<std::uintptr_t>(to) % aligned.memory != 0;
  if (detour_) {
    end = std::min(up(offset + length, unit), up(begin + longest_detour, unit));
    if (!provide(end - begin, std::max(aligned.memory, direct_file::usual_alignment))) return false;
  }
  length_ = std::uint32_t(end - begin);
  wanted_ = std::uint32_t(std::min(length, end - offset));
  return true;
}

bool direct_read::provide(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes <= memory_bytes_ && alignment <= memory_alignment_) return true;
  bytes = up(std::max(bytes, 2 * memory_bytes_), alignment);
  memory_.reset();
  memory_bytes_ = 0;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes)));
  if (!memory_) return false;
  memory_bytes_ = bytes;
  memory_alignment_ = alignment;
  return true;
}

std::uint32_t direct_read::finish(std::uint64_t bytes) noexcept {
  if (bytes <= skip_) return 0;
  auto const got = std::uint32_t(std::min<std::uint64_t>(bytes - skip_, wanted_));
  if (detour_) std::memcpy(to_, memory_.get() + skip_, got);
  return got;
}

}  // namespace gpufs::daemon
