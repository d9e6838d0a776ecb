// The kinds of opens: which of them share a descriptor, and which write.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <fcntl.h>

namespace gpufs::daemon {

inline constexpr int write_once = int(rpc::open_write_once);

// The flags that two opens must have in common to share a descriptor.
inline int kind_of(int flags) { return flags & (O_ACCMODE | O_APPEND | write_once); }
inline bool for_writing(int kind) { return (kind & O_ACCMODE) != O_RDONLY; }
// False for O_GWRONCE: readers do not share pages with such a writer. It is to them like another
// process: their next open validates the file and finds the new contents.
inline bool shares_pages(int kind) { return for_writing(kind) && (kind & write_once) == 0; }

}  // namespace gpufs::daemon
