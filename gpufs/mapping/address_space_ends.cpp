// Calls end: what they used can be had back.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <algorithm>
#include <new>

namespace gpufs::shared {

using device_memory::host_access;

void address_space::end_behind(stream& on, std::int64_t call) noexcept {
  if (in_forked_child()) return;  // the call is the parent's
  quiet_lock lock(mutex_);
  try {
    device_scope const here(device_);
    ending_.insert(call);  // first, as it may find no memory
    ends_.add(on, call);
    return;
  } catch (std::bad_alloc const&) {
  } catch (...) {
    fail();
  }
  // No mark lies behind the call. Its kernel may run.
  lock.beside([&] { wait_for_end(on); });
  end_call(call);
}

void address_space::wait_for_calls() {
  if (in_forked_child()) return;
  quiet_lock lock(mutex_);
  // Others may launch on and on.
  auto const last = last_call_;
  wait_until(lock, [&] { return ending_.empty() || *ending_.begin() > last; });
}

void address_space::take_ended_calls() noexcept {
  ends_.ask([this](std::int64_t call) { end_call(call); });
}

void address_space::cancel(std::int64_t call) noexcept {
  if (in_forked_child()) return;
  quiet_lock const lock(mutex_);
  drop_uses(call);
  tell_changes();
}

void address_space::end_call(std::int64_t call) noexcept {
  ending_.erase(call);
  for (auto& [offset, o] : objects_) {
    if (o.protocol != coherence_protocol::batch || !o.single.empty()) continue;
    for (auto const& u : o.uses) {
      if (u.call != std::uint64_t(call)) continue;
      o.is_at_device = true;
      o.is_changed = o.is_changed || u.writes;
    }
  }
  drop_uses(call);
  tell_changes();
}

// If there is no memory to give them back, nobody knows what the CPU may do with them.
void address_space::drop_uses(std::int64_t call) noexcept {
  auto const is_of_call = [call](use const& u) { return u.call == std::uint64_t(call); };
  for (auto& [offset, o] : objects_) {
    for (auto& u : o.uses) u.writes = u.writes && !is_of_call(u);  // none of them counts any more
    if (!device_memory::shared_range::hands_over && o.glimpses.empty()) {
      std::erase_if(o.uses, is_of_call);
      continue;
    }
    for (;;) {
      auto const at = std::ranges::find_if(o.uses, is_of_call);
      if (at == o.uses.end()) break;
      block_run const blocks = at->blocks;
      o.uses.erase(at);
      try {
        end_use(o, blocks);
      } catch (std::bad_alloc const&) {
        fail();
      }
    }
  }
}

// Gives the CPU back what no other call uses.
void address_space::end_use(object& o, block_run r) {
  if constexpr (!device_memory::shared_range::hands_over) return end_glimpses(o, r);
  for (auto const& free : o.unused(r)) {
    if (!range_.end_use(o.begin_of(free), o.pages_of(free))) {
      // The device's bytes lie there still. The CPU shall not take them for its own.
      static_cast<void>(states_.protect(o, free, host_access::none));
      fail();
      continue;
    }
    if (o.protocol == coherence_protocol::batch) {
      if (states_.protect(o, free, host_access::read_write) != 0) fail();
      continue;
    }
    // The device has these bytes, too. So blocks that cannot be protected are fetched again.
    for (auto const& run : o.readable.within(free)) {
      if (states_.protect(o, run, host_access::read) != 0)
        states_.set_state(o, run, block_state::invalid);
    }
    for (auto const& run : o.single.within(free)) restore_single(o, run);
  }
}

}  // namespace gpufs::shared
