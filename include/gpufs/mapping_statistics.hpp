// What moved between CPU and GPU for the objects of a gpufs::shared_memory, and why.
#pragma once

#include <cstdint>
#include <string>

/// COUNTER(name, what is counted). Each becomes a member of gpufs::mapping_statistics, a line of
/// to_text() and a field of to_json_fields().
#define GPUFS_MAPPING_COUNTERS(COUNTER)                                                           \
  COUNTER(bytes_h2d, "bytes sent to the device, for all reasons")                                 \
  COUNTER(bytes_d2h, "bytes fetched from the device, for all reasons")                            \
  COUNTER(release_blocks, "blocks sent because a call used them, or by prefetch_to_device()")     \
  COUNTER(release_bytes, "their bytes")                                                           \
  COUNTER(eviction_blocks, "blocks sent because the CPU had written more than rolling_size")      \
  COUNTER(eviction_bytes, "their bytes")                                                          \
  COUNTER(fault_read_blocks, "blocks fetched because the CPU read them")                          \
  COUNTER(fault_read_bytes, "their bytes")                                                        \
  COUNTER(fault_write_blocks, "blocks fetched because the CPU wrote to a part of them")           \
  COUNTER(fault_write_bytes, "their bytes")                                                       \
  COUNTER(glimpsed_blocks, "blocks fetched because the CPU read them while a call ran")           \
  COUNTER(glimpsed_bytes, "their bytes")                                                          \
  COUNTER(acquire_blocks, "blocks fetched by acquire()")                                          \
  COUNTER(acquire_bytes, "their bytes")                                                           \
  COUNTER(io_h2d_bytes, "bytes that read(), copy() and set() put straight onto the device")       \
  COUNTER(io_d2h_bytes, "bytes that write() and copy() took straight from the device")            \
  COUNTER(batch_h2d_bytes, "bytes that the batch protocol sent")                                  \
  COUNTER(batch_d2h_bytes, "bytes that the batch protocol fetched")                               \
  COUNTER(fill_bytes, "bytes read from files")                                                    \
  COUNTER(direct_fill_bytes, "those of them that were read past the OS page cache")               \
  COUNTER(fills_skipped, "bytes of files that were not read, as nobody wants what they had")      \
  COUNTER(writeback_bytes, "bytes written to files")                                              \
  COUNTER(writeback_pages, "pages that they lie in")                                              \
  COUNTER(pages_unchanged, "pages that were looked at and had not changed")                       \
  COUNTER(merge_read_bytes, "bytes of old pages read, as only a part of the page was written")    \
  COUNTER(moves, "chunks that went to GPU memory or to host memory, or left them, for launches")  \
  COUNTER(move_h2d_bytes, "bytes sent as their chunk went to GPU memory")                         \
  COUNTER(move_d2h_bytes, "bytes fetched as their chunk left GPU memory")                         \
  COUNTER(spill_bytes, "bytes written to spill_dir, as host_memory did not hold them")            \
  COUNTER(spill_read_bytes, "bytes read back from there")                                         \
  COUNTER(merged_bytes, "bytes moved because vm.max_map_count mappings were there")               \
  COUNTER(faults_read, "reads of the CPU that had to wait for a block")                           \
  COUNTER(faults_write, "writes of the CPU that had to wait for a block or for its protection")   \
  COUNTER(faults_spurious, "faults of the CPU on blocks that another thread had just made ready") \
  COUNTER(reevictions, "writes of the CPU to blocks that had just been sent")                     \
  COUNTER(pinned_bytes, "bytes of the CPU's side that were pinned for copies")                    \
  COUNTER(calls, "launches that used shared objects")                                             \
  COUNTER(declared_calls, "those of them that declared what they use")

namespace gpufs {

/// Counters since the shared_memory or the object was made, or since the snapshot that was
/// subtracted. Exact, not sampled. Spurious faults and what is read while calls run
/// (map_options::wait_on_touch) depend on timing, all others on the program.
struct mapping_statistics {
#define GPUFS_MEMBER(name, help) std::uint64_t name = 0;
  GPUFS_MAPPING_COUNTERS(GPUFS_MEMBER)
#undef GPUFS_MEMBER

  /// The counters since the snapshot `earlier` of the same object.
  [[nodiscard]] mapping_statistics operator-(mapping_statistics const& earlier) const;
};

/// Where the bytes of objects are, in bytes of whole chunks.
struct memory_tiers {
  std::uint64_t device = 0;  ///< in GPU memory
  std::uint64_t host = 0;    ///< in the host's memory, where the GPU uses them over the bus
  std::uint64_t away = 0;    ///< in the host's memory or in the file only; launches bring them
};

/// One line per counter that is not zero: "  faults_read        12".
[[nodiscard]] std::string to_text(mapping_statistics const& s);

/// The counters as the inside of a JSON object: "\"bytes_h2d\": 3, ...".
[[nodiscard]] std::string to_json_fields(mapping_statistics const& s);

}  // namespace gpufs
