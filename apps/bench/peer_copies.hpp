// Hand-written ways to bring a file or records to a GPU, for peer_rows.hpp. All are in GB/s, and
// throw as those do.
#pragma once

#include <apps/bench/peer_rows.hpp>

namespace gpufs::apps {

/// mmap, and one copy out of the mapping.
[[nodiscard]] double stream_mapped(peer_work const& w);

/// Threads pread into memory that the driver moves, and a kernel reads it.
[[nodiscard]] double stream_managed(peer_work const& w);

/// 16 threads that read pieces of 16 MiB, or records, into GPU memory by cuFile.
[[nodiscard]] double stream_cufile(peer_work const& w);
[[nodiscard]] double records_cufile(peer_work const& w);

/// Threads pread records into pinned chunks, which are copied.
[[nodiscard]] double records_pread(peer_work const& w);

/// KvikIO in a Python of its own, by scripts/peers_kvikio.py.
[[nodiscard]] double stream_kvikio(peer_work const& w);
[[nodiscard]] double records_kvikio(peer_work const& w);

}  // namespace gpufs::apps
