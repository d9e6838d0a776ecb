// The counters of one open file. Any host thread calls.
#pragma once

#include <cstdint>
#if !defined(__CUDACC_RTC__)
#include <string>
#endif

/// COUNTER(name, what is counted). Each becomes a member of gpufs::file_statistics and a value of
/// gpufs::handle::file_counter. Names are those of gpufs::statistics, of which they are a share.
#define GPUFS_FILE_COUNTERS(COUNTER)                              \
  COUNTER(hits, "page look-ups that the page cache answered")     \
  COUNTER(misses, "pages that the caller had to bring in")        \
  COUNTER(waits, "page look-ups that waited for another caller")  \
  COUNTER(bytes_delivered, "bytes that gread and gwait returned") \
  COUNTER(bytes_written, "bytes that kernels' writes posted")

namespace gpufs {

/// What kernels did through one descriptor since it was opened, or since the snapshot that was
/// subtracted. filesystem::file_stats() and gfstats() fill it in. Needs config::file_counters.
///
/// hits: pages that a gread, gwait, gwrite, gmmap or gfadvise(willneed) found ready in the cache,
/// and those that an access of an array or a held_ptr pinned there. Lanes that come together for
/// one page count once. An access that tries again after a wait does not count again.
///
/// misses: pages that such a call entered into the cache. They are counted also if their bytes were
/// prefetched, if a file window had them, if the fetch failed, or if a gwrite covers the page, so
/// that nothing is fetched.
///
/// waits: pages that another caller was bringing in. A gwrite that waits so counts a hit.
///
/// Not counted as any of these: loads of array elements without a pin (of a page in the cache, from
/// a file window, or requested alone), reads of a held_ptr within its page, loads and stores
/// through gmmap's pointer, pages that readahead or array::prefetch() has asked for.
///
/// bytes_delivered: what gread and gwait returned. bytes_written: what gwrite, gmsync and stores of
/// arrays and held pointers posted. Loads of elements count no bytes.
struct file_statistics {
#define GPUFS_MEMBER(name, help) std::uint64_t name = 0;
  GPUFS_FILE_COUNTERS(GPUFS_MEMBER)
#undef GPUFS_MEMBER

#if !defined(__CUDACC_RTC__)
  /// The counters since the snapshot `earlier` of the same descriptor.
  [[nodiscard]] file_statistics operator-(file_statistics const& earlier) const;
#endif
};

#if !defined(__CUDACC_RTC__)
/// One line per counter that is not zero: "  misses           1024".
[[nodiscard]] std::string to_text(file_statistics const& s);

/// The counters as the inside of a JSON object: "\"hits\": 3, \"misses\": 4, ...".
[[nodiscard]] std::string to_json_fields(file_statistics const& s);
#endif

}  // namespace gpufs
