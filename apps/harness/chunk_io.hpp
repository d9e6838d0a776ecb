// Arguments of a kernel that reads the files of an application, and the record of a failed read.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/common/checksum.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

/// Files that one kernel reads, counted once for each time.
inline constexpr unsigned most_files = 6;

/// In device memory: the first gread or gopen that did not give what was asked for.
struct io_failure {
  std::uint32_t taken;  ///< elects who reports
  std::uint32_t file;
  std::int64_t result;  ///< -errno, or bytes
  std::uint64_t offset;
  std::uint64_t bytes;  ///< 0: the file could not be opened
};

/// The files of an application as its own kernels read them (--mode fused).
struct chunk_io {
  fs_ref fs;
  char const* paths[most_files];  ///< in device memory
  std::uint64_t request;          ///< bytes per gread that the command line asks for
  io_failure* failure;
  /// null, or one for each file, to be added to with add_to_checksum()
  unsigned long long* checksums;
};

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)

/// Any thread may call.
__device__ inline void report_failure(io_failure* f, std::uint32_t file, std::int64_t result,
                                      std::uint64_t offset, std::uint64_t bytes) {
  // Relaxed: elects one writer; the host reads after the kernel.
  if (threadIdx.x != 0 ||
      atomic_ref<std::uint32_t, scope::device>(f->taken).exchange(1, memory_order_relaxed) != 0)
    return;
  f->file = file;
  f->result = result;
  f->offset = offset;
  f->bytes = bytes;
}

/// Reads all of [offset, offset + count) of file number `file`, which is open as `fd`. Collective
/// over the block. False, and reported, if that did not work.
template <class Group>
__device__ bool read_chunk(io_context<Group>& io, chunk_io const& files, std::uint32_t file, int fd,
                           void* to, std::uint64_t count, std::uint64_t offset) {
  ssize_t const got = gread(io, fd, to, count, static_cast<std::int64_t>(offset));
  if (got == static_cast<ssize_t>(count)) return true;
  report_failure(files.failure, file, got, offset, count);
  return false;
}

/// Opens file number `file`. Collective over the block. Returns -1, and reports, if that did not
/// work.
template <class Group>
__device__ int open_file(io_context<Group>& io, chunk_io const& files, std::uint32_t file) {
  int const fd = gopen(io, files.paths[file], O_RDONLY);
  if (fd < 0) report_failure(files.failure, file, fd, 0, 0);
  return fd < 0 ? -1 : fd;
}

/// Adds the words of a file that begin in [offset, offset + count) to the checksum of the file, if
/// one is taken. Their bytes lie at `bytes`. All threads of the block call, once for every byte of
/// the file.
/// If offset + count is no multiple of 8, the rest of the last word lies at `next`; null: the file
/// ends there.
__device__ inline void add_to_checksum(chunk_io const& files, std::uint32_t file, void const* bytes,
                                       std::uint64_t count, std::uint64_t offset,
                                       void const* next = nullptr) {
  if (files.checksums == nullptr) return;
  auto const* const from = static_cast<unsigned char const*>(bytes);
  auto const* const beyond = static_cast<unsigned char const*>(next);
  unsigned long long sum = 0;
  for (std::uint64_t at = (8 - offset % 8) % 8 + 8 * threadIdx.x; at < count;
       at += 8 * blockDim.x) {
    std::uint64_t word = 0;
    for (std::uint64_t i = 0; i < 8; ++i) {
      if (at + i >= count && beyond == nullptr) break;
      word |= std::uint64_t{at + i < count ? from[at + i] : beyond[at + i - count]} << (8 * i);
    }
    sum += checksum_term(word, (offset + at) / 8);
  }
  if (sum != 0) atomicAdd(&files.checksums[file], sum);
}

#endif

}  // namespace gpufs::apps
