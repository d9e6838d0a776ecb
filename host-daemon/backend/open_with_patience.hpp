// Opens of files that others have a lease of.
#pragma once

#include <host-daemon/backend/storage_backend.hpp>

#include <functional>
#include <string>

namespace gpufs::daemon {

/// Opens a file as storage.open(), and waits while another process has a lease or a delegation of
/// it (fcntl(2); file servers take them): the holder has /proc/sys/fs/lease-break-time to let go.
/// `goes_on` is asked before each further try; empty: it does.
/// Returns as storage.open(), -ETIMEDOUT once `goes_on` says false, or -EAGAIN: open(2) has said so
/// for 90 s. Throws std::bad_alloc.
[[nodiscard]] opened_file open_with_patience(storage_backend& storage, std::string const& path,
                                             int flags, unsigned mode,
                                             std::function<bool()> const& goes_on = {});

}  // namespace gpufs::daemon
