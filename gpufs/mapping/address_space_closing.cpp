// Blocks are closed before an object is written back, as nobody may write to it meanwhile, and
// before its bytes are dropped.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/no_mappings.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>

namespace gpufs::shared {

using device_memory::host_access;

// As the process ends, nobody may launch any more what is released and not launched.
bool address_space::may_be_written(object const& o, block_run r) const {
  bool const ends = ends_process_.load(std::memory_order_relaxed) != 0;
  return std::ranges::any_of(o.uses, [&](use const& u) {
    bool const is_left = ends && is_of_call(u) && !ending_.contains(std::int64_t(u.call));
    return u.writes && !is_left && u.blocks.overlaps(r);
  });
}

// Writes of the CPU to these blocks are seen from now on. What it has written is on its way to the
// device. Returns false if the system has no more mappings. Blocks are closed one by one, so those
// before are as they should be.
bool address_space::close_written(object& o, block_run r) try {
  for (auto const& run : o.dirty_runs(r)) {
    states_.protect_or_throw(o, run, host_access::read);
    states_.clean(o, run, released);
  }
  still_single(o, r);
  return true;
} catch (no_mappings const&) {
  if (o.is_going) {  // nobody writes to it any more
    states_.clean(o, r, released);
    return true;
  }
  if (!o.uses.empty()) return false;
  try {
    states_.merge(o);
    return true;
  } catch (no_mappings const&) {  // a touch opens what was closed
    return false;
  }
}

// The system has no more mappings. All blocks alike need one. Unless it is dropped as well, what
// the CPU has written is sent: the device has the only bytes then. Returns 0, -ENOMEM or -EIO.
int address_space::close_all(object& o, bool drops_changed) try {
  if (states_.protect(o, o.all(), host_access::none) != 0) return -ENOMEM;
  if (drops_changed) return 0;
  device_scope const here(device_);
  states_.clean(o, o.all(), {nullptr, &mapping_statistics::merged_bytes});
  transfers_.wait_for_sends();
  return 0;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
} catch (std::exception const&) {
  fail();
  return -EIO;
}

}  // namespace gpufs::shared
