// The counters of device code: one line each, from which everything else follows.
#pragma once

/// COUNTER(name, what is counted). Each becomes a member of gpufs::statistics, a value of
/// gpufs::handle::counter, a line of to_text() and a field of to_json_fields().
#define GPUFS_DEVICE_COUNTERS(COUNTER)                                                           \
  COUNTER(hits, "page look-ups that the page cache answered; loads without a pin not counted")   \
  COUNTER(misses, "pages that callers brought in")                                               \
  COUNTER(waits, "page look-ups that waited for another caller's page")                          \
  COUNTER(evictions, "pages thrown out to make room")                                            \
  COUNTER(requests, "requests put into the ring, of all kinds")                                  \
  COUNTER(read_requests, "requests that asked for bytes of a file")                              \
  COUNTER(prefetch_hits, "misses whose bytes a prefetch buffer had, or had asked for")           \
  COUNTER(pages_ahead, "misses of pages that were brought in before they were wanted")           \
  COUNTER(pages_by_warps, "misses of long reads that the warps of a block shared out")           \
  COUNTER(bytes_delivered, "bytes that gread and gwait gave to kernels")                         \
  COUNTER(bytes_pulled, "bytes that kernels pulled from pinned staging over the bus")            \
  COUNTER(bytes_dma, "bytes that the copy engine brought into GPU memory")                       \
  COUNTER(bytes_registered, "bytes that kernels pulled out of file windows, without a request")  \
  COUNTER(elements_straight, "array elements loaded out of file windows, without their pages")   \
  COUNTER(elements_alone, "array elements loaded by requests of their own, without their pages") \
  COUNTER(timeouts, "requests given up after rpc_timeout")                                       \
  COUNTER(errors, "page fetches that failed")                                                    \
  COUNTER(bytes_written, "bytes that gwrite, gmsync and stores of elements took from kernels")   \
  COUNTER(bytes_unposted, "bytes that a held_writer stored, and could not post when it let go")  \
  COUNTER(maps, "pages that gmmap mapped")                                                       \
  COUNTER(unmaps, "pages that gmunmap gave back")

/// The same for the counters of the host.
#define GPUFS_HOST_COUNTERS(COUNTER)                                                   \
  COUNTER(host_reads, "read operations that the daemon issued")                        \
  COUNTER(host_bytes, "bytes that the daemon read from files")                         \
  COUNTER(host_bytes_direct, "bytes that bypassed the OS page cache (O_DIRECT)")       \
  COUNTER(host_bytes_viewed, "bytes copied out of mappings of files, no system call")  \
  COUNTER(host_writes, "write operations that the host issued for dirty pages")        \
  COUNTER(host_bytes_written, "bytes that it wrote to files")                          \
  COUNTER(windows_registered, "file windows that were registered for the GPU")         \
  COUNTER(windows_retired, "file windows taken away again: file changed, or no room")  \
  COUNTER(registering_ns, "nanoseconds that the device took to register file windows") \
  COUNTER(idle_polls, "times a daemon thread looked for work and found none")
