// The parts of the file API that kernels and the host share: an open flag and the file status.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

namespace gpufs {

/// The result of gfstat() and filesystem::stat(). `size` is in bytes; `mtime_ns` and `ctime_ns`
/// count nanoseconds since the epoch. `device`, `inode`, `mode`, `block_size` are as in stat(2).
using rpc::file_status;

/// Flag of gopen() and filesystem::open(): this descriptor writes the file and never reads it back.
/// It implies O_WRONLY. No gwrite fetches old bytes of a page.
///
/// Readers of this filesystem see the bytes at the first gopen after the last gclose of the
/// descriptor. Before that they read old or new bytes.
inline constexpr int O_GWRONCE = static_cast<int>(rpc::open_write_once);

}  // namespace gpufs
