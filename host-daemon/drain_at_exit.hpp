// Dirty pages of a program that exits without destroying its filesystems.
#pragma once

namespace gpufs::daemon {

class write_back;

/// From now on (`on`), or no longer, a call of exit(3) writes what is dirty, and lists on stderr
/// what cannot be written. So does an exception that nobody catches, before the terminate handler
/// that was there when this was first called. Called first when the device has been set up, so that
/// the device's own end, which was registered before, comes after ours.
void drain_at_exit(write_back& writes, bool on);

}  // namespace gpufs::daemon
