// Dirty pages of a program that exits and does not destroy its filesystems.
#pragma once

namespace gpufs::daemon {

class write_back;

/// While it is on, exit(3) writes the dirty pages of `writes` and lists on stderr the bytes that
/// cannot be written. An uncaught exception does the same before the earlier terminate handler
/// runs. A child of fork() does neither: the pages are the parent's.
/// Switch it off when the pages are written: see write_back::finish(). That waits for an exit that
/// writes them.
/// The first call must come after the device has been set up. The end of the device, which was
/// registered before, then comes after ours.
void drain_at_exit(write_back& writes, bool on);

}  // namespace gpufs::daemon
