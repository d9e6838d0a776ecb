// What happened: counters of one filesystem, summed over the device and the daemon.
#pragma once

#include <cstdint>
#include <string>

namespace gpufs {

/// Counters since the filesystem was made or since the snapshot that was subtracted. Exact once no
/// kernel is running.
struct statistics {
  std::uint64_t hits = 0;    ///< page look-ups answered by the page cache, but for loads of cached
                             ///< elements of an array
  std::uint64_t misses = 0;  ///< pages this caller had to bring in
  std::uint64_t waits = 0;  ///< page look-ups that waited for a page another caller was bringing in
  std::uint64_t evictions = 0;      ///< pages thrown out to make room
  std::uint64_t requests = 0;       ///< requests put into the ring, of all kinds
  std::uint64_t read_requests = 0;  ///< those that asked for file bytes
  std::uint64_t prefetch_hits =
      0;  ///< misses whose bytes a prefetch buffer already had (or had asked for)
  std::uint64_t bytes_delivered = 0;  ///< bytes that gread handed to kernels
  std::uint64_t bytes_pulled = 0;  ///< bytes that kernels pulled from pinned staging over the bus
  std::uint64_t bytes_dma = 0;     ///< bytes that arrived in GPU memory by DMA
  std::uint64_t bytes_mapped =
      0;                       ///< bytes that kernels pulled out of mapped files, with no request
  std::uint64_t timeouts = 0;  ///< requests given up after rpc_timeout
  std::uint64_t errors = 0;    ///< page fetches that failed
  std::uint64_t bytes_written = 0;       ///< bytes that gwrite took from kernels
  std::uint64_t maps = 0;                ///< pages mapped by gmmap
  std::uint64_t unmaps = 0;              ///< and given back by gmunmap
  std::uint64_t host_reads = 0;          ///< read operations the daemon issued
  std::uint64_t host_bytes = 0;          ///< bytes the daemon read from files
  std::uint64_t host_bytes_direct = 0;   ///< those that bypassed the OS page cache (O_DIRECT)
  std::uint64_t host_writes = 0;         ///< write operations the host issued for dirty pages
  std::uint64_t host_bytes_written = 0;  ///< bytes it wrote to files
  std::uint64_t windows_mapped = 0;      ///< windows of files that were mapped for the GPU
  std::uint64_t windows_retired =
      0;  ///< of these, taken away from kernels again: the file has changed, or room was needed
  std::uint64_t idle_polls = 0;  ///< times a daemon thread looked for work and found none

  [[nodiscard]] statistics operator-(statistics const& earlier) const;
};

/// What one daemon thread did since the filesystem was made.
struct thread_statistics {
  std::uint64_t requests = 0;            ///< taken
  std::uint64_t idle_polls = 0;          ///< times it looked for work and found none
  std::uint64_t polls_before_first = 0;  ///< of these, before its first request
};

/// One line per counter that is not zero: "  misses           1024".
[[nodiscard]] std::string to_text(statistics const& s);

/// The counters as the inside of a JSON object: "\"hits\": 3, \"misses\": 4, ...".
[[nodiscard]] std::string to_json_fields(statistics const& s);

}  // namespace gpufs
