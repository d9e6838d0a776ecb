// The bytes that a gread reads, their parts in pages, and where the read must stop.
#pragma once

#include <gpufs/base/copy.hpp>
#include <gpufs/source/staged.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Bytes [begin, end) of a file version, within its size, and the buffer that they go to. Without a
/// buffer they go to the page cache only.
struct read_span {
  std::byte* buffer;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t version;
  std::uint64_t size;
  std::int32_t fd;
  std::uint32_t page_shift;
  /// the file is written: its pages are cached in full, and only `size` shows where it ends
  bool zero_filled;
  std::uint32_t changes = 0;  ///< used_file::changes of the file; for hits_read::outdated

  __device__ std::uint64_t page_bytes() const { return std::uint64_t(1) << page_shift; }
  __device__ std::uint64_t first_page() const { return begin >> page_shift; }
  __device__ std::uint64_t last_page() const { return (end - 1) >> page_shift; }

  __device__ source::page_name name(std::uint64_t page) const {
    std::uint64_t const left = size - (page << page_shift);
    return {version, page, fd, left < page_bytes() && !zero_filled ? left : page_bytes(),
            zero_filled};
  }
  /// The part of the page that the span covers, if the page has `got` bytes. The page is one of the
  /// span's.
  __device__ page_target target(std::uint64_t page, std::uint32_t got) const {
    if (buffer == nullptr) return {nullptr, 0, 0};
    std::uint64_t const start = page << page_shift;
    std::uint32_t const from = begin > start ? static_cast<std::uint32_t>(begin - start) : 0;
    std::uint32_t const to =
        end - start < got ? static_cast<std::uint32_t>(end - start) : got;  // got: of a page
    return {buffer + static_cast<std::int64_t>(start - begin), from, most(from, to)};
  }
};

/// The outcome for a page: its first `got` bytes are there. `error` ended them, or is 0 at the end
/// of the file.
struct arrival {
  std::uint64_t got;
  std::int32_t error;
};

/// Where the first failure or early end lies; the smallest key wins. One per warp, combined over
/// the group.
class read_stop {
 public:
  /// Nothing is known to be missing.
  __device__ read_stop() {}
  __device__ static read_stop of(std::uint64_t key) {
    read_stop s;
    s.key_ = key;
    return s;
  }
  __device__ bool none() const { return key_ == ~0ull; }
  __device__ std::uint64_t key() const { return key_; }
  /// Bytes [.., at), counted from the span's begin, are good. `error` ended them, or is 0 at the
  /// end of the file.
  __device__ void note(std::uint64_t at, std::int32_t error) {
    std::uint64_t const key = at << 12 | static_cast<std::uint32_t>(-error);
    if (key < key_) key_ = key;
  }
  __device__ void note(read_stop const& other) {
    if (other.key_ < key_) key_ = other.key_;
  }
  /// Notes where a page with `got` bytes and this error stops the span, if it does.
  __device__ void note_page(read_span const& span, std::uint64_t page, arrival const& a) {
    std::uint64_t const start = page << span.page_shift;
    std::uint64_t const want = least(span.end, start + span.page_bytes());
    std::uint64_t const have = start + a.got;
    if (have >= want) return;
    note(have > span.begin ? have - span.begin : 0, a.error);
  }
  __device__ static std::uint64_t bytes(std::uint64_t key) { return key >> 12; }
  __device__ static std::int32_t error(std::uint64_t key) {
    return -static_cast<std::int32_t>(key & 0xfff);
  }

 private:
  std::uint64_t key_ = ~0ull;
};
static_assert(sizeof(read_stop) == 8);

}  // namespace gpufs::io
