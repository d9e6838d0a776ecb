// Objects come and go.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/wait_until.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

namespace gpufs::shared {

using device_memory::host_access;
using device_memory::host_page;
using device_memory::rounded_up;

namespace {

std::uint64_t block_for(std::uint64_t bytes, coherence_protocol protocol, std::uint64_t asked) {
  if (protocol == coherence_protocol::lazy) return rounded_up(bytes, host_page);
  return asked == block_automatic ? automatic_block(bytes) : asked;
}

// The place of managed memory for an object.
std::uint64_t make_managed(guarded_range& range, std::uint64_t bytes, std::string const& of) {
  // Written so that no sum overflows.
  if (bytes > device_memory::shared_range::all_addresses)
    throw shared_memory_error(
        ENOMEM, fmt::format("{}: {} bytes of managed memory are more than a process has addresses; "
                            "make smaller objects",
                            of, bytes));
  try {
    return range.attach_managed(rounded_up(bytes, device_memory::shared_range::granularity));
  } catch (device_error const& e) {
    throw shared_memory_error(ENOMEM, of + ": " + e.what());
  } catch (std::bad_alloc const&) {
    throw shared_memory_error(ENOMEM, of + ": no host memory left");
  }
}

// What an anonymous object needs to be spilled.
std::unique_ptr<file_side> spilling_side(std::uint64_t block_bytes) {
  return std::unique_ptr<file_side>(
      new file_side{.file = nullptr,
                    .offset = 0,
                    .use = access::read_write,
                    .is_scratch = true,
                    .unit_bytes = unit_for(block_bytes, staging_piece::size),
                    .begins_with = first_bytes::zeros});
}

}  // namespace

coherence_protocol address_space::protocol_for(map_options const& options) const {
  // For the checks of options, which refuse none then. add() makes batch objects.
  if (is_to_be_managed(options)) return coherence_protocol::rolling;
  return options.protocol.value_or(settings_.protocol);
}

// Its memory is the parent's, and so is the mutex: a thread that has it is not there.
void address_space::refuse_in_forked_child() const {
  if (in_forked_child())
    throw shared_memory_error(
        EIO,
        "shared memory: a child of fork() can make no objects, as threads and device are its "
        "parent's; make them there");
}

object& address_space::allocate(std::uint64_t bytes, map_options const& options) {
  if (bytes == 0) throw shared_memory_error(EINVAL, "shared memory: 0 bytes asked for");
  refuse_in_forked_child();
  return add(bytes, options, nullptr);
}

// Managed memory is made and given back without the mutex: a GPU may wait for kernels meanwhile,
// and a kernel for what a thread does whose fault needs the mutex. An object with a file is going
// until map_file() has read what has to be there.
object& address_space::add(std::uint64_t bytes, map_options const& options,
                           std::unique_ptr<file_side> file) {
  no_signals const quiet;
  device_scope const here(device_);
  bool const is_managed = is_to_be_managed(options);
  // Of a file: its path.
  bool const is_file = file != nullptr;
  std::string const name = is_file ? file->file->name() : "shared memory";
  std::uint64_t const managed = is_managed ? make_managed(range_, bytes, name) : 0;
  quiet_lock lock(mutex_);
  std::uint64_t const offset = is_managed ? managed : take_room(bytes, name);
  auto const protocol = is_managed ? coherence_protocol::batch : protocol_for(options);
  auto const block = options.block.value_or(settings_.coherence_block);
  try {
    auto& o = objects_
                  .emplace(offset, object{.id = ++last_object_,
                                          .offset = offset,
                                          .bytes = bytes,
                                          .block_bytes = block_for(bytes, protocol, block),
                                          .protocol = protocol,
                                          .waits_on_touch = options.wait_on_touch,
                                          .states = {},
                                          .is_going = is_file,
                                          .is_managed = is_managed})
                  .first->second;
    if (protocol == coherence_protocol::rolling) states_.rolling().object_added();
    o.file = std::move(file);
    if (o.file == nullptr && tiers_.make_spill_file != nullptr &&
        protocol == coherence_protocol::rolling)
      o.file = spilling_side(o.block_bytes);
    set_up(o);
    return o;
  } catch (std::exception const& e) {
    if (auto const made = objects_.find(offset); made != objects_.end()) {
      forget(lock, made->second);
    } else {
      lock.beside([&] { range_.detach(offset, bytes); });
      give_back_room(offset, bytes);
    }
    throw shared_memory_error(ENOMEM, is_file ? name + ": " + e.what() : e.what());
  }
}

// Memory, states and protection at first.
void address_space::set_up(object& o) {
  if (o.is_managed) {
    set_up_managed(o);
    if (o.file != nullptr) set_up_file(o);
    return;
  }
  if (o.is_read_only())
    range_.attach_file(o.offset, o.bytes, o.file->file->descriptor(), o.file->offset);
  else
    range_.attach(o.offset, o.bytes);
  set_up_chunks(o);
  if (o.protocol == coherence_protocol::batch)
    states_.protect_or_throw(o, o.all(), host_access::read_write);
  else
    set_up_states(o);
  if (o.protocol == coherence_protocol::rolling) o.evicted_at.resize(o.block_count());
  if (o.file != nullptr) set_up_file(o);
}

// As after attach(): the CPU may read all of it.
void address_space::set_up_states(object& o) {
  bool const is_absent = o.file != nullptr && o.file->begins_with != first_bytes::zeros;
  bool const is_at_host = !is_absent || o.is_read_only();
  o.states.assign(o.block_count(), is_at_host ? block_state::read_only : block_state::invalid);
  o.readable = {};
  if (is_at_host)
    o.readable.add(o.all());
  else
    states_.protect_or_throw(o, o.all(), host_access::none);
}

void address_space::set_up_file(object& o) {
  auto& f = *o.file;
  if (f.begins_with != first_bytes::zeros) f.absent.add(f.units_of(0, o.bytes));
  if (f.is_written_back() && settings_.detect_writes != write_detection::all)
    f.known = files_.new_hashes(o.bytes);
}

// Several threads may want that.
void address_space::join_filler(quiet_lock& lock, object& o) {
  auto filler = std::exchange(o.file->filler, {});
  if (filler.joinable()) lock.without([&] { filler.join(); });
}

void address_space::stop_filling(quiet_lock& lock, object& o) {
  o.file->stops.store(true, std::memory_order_relaxed);
  join_filler(lock, o);
  wait_until(lock, [&] { return o.file->fills == 0 && o.file->stays == 0; });
}

// Memory is given back without the mutex. A GPU may do that only between kernels, and a kernel may
// wait for what another thread does.
int address_space::remove(object& o, bool is_written_back) {
  if (in_forked_child()) return 0;
  {
    quiet_lock lock(mutex_);
    o.is_going = true;
    if (o.file != nullptr && is_written_back) o.file->saver = ::gettid();
    if (o.file != nullptr) stop_filling(lock, o);
  }
  int const result = is_written_back ? write_back(o, {0, o.bytes}, false) : 0;
  quiet_lock lock(mutex_);
  if (o.file != nullptr) o.file->saver = 0;
  tell_changes();
  wait_until(lock, [&] { return o.uses.empty(); });
  std::optional<device_scope> here;
  try {
    here.emplace(device_);
    try {
      transfers_.wait_for_sends();
    } catch (std::bad_alloc const&) {  // those of other objects start with the next ones
      transfers_.forget_sends(o, {0, o.bytes});
    }
    // Those of gather(): another thread may not have waited for them.
    transfers_.fetches().synchronize();
  } catch (std::exception const&) {
    fail();
  }
  forget(lock, o);
  return has_failed_ ? -EIO : result;
}

// Needs no memory: the object has to go.
void address_space::forget(quiet_lock& lock, object& o) noexcept {
  states_.forget_dirty(o, o.all());
  if (o.protocol == coherence_protocol::rolling) states_.rolling().object_removed();
  std::uint64_t const offset = o.offset, bytes = o.bytes;
  auto const pinned = transfers_.forget_all_pins(o);
  auto file = std::move(o.file);
  forget_chunks(o);
  objects_.erase(offset);
  ++tiers_.forgetting;
  lock.beside([&] {
    pinned.for_each([&](block_run pieces) { transfers_.unpin(offset, pieces); });
    range_.detach(offset, bytes);
    file.reset();
  });
  give_back_room(offset, bytes);
  --tiers_.forgetting;
  ++tiers_.forgotten;
  tell_changes();
}

object* address_space::object_at(std::uint64_t offset) {
  auto at = objects_.upper_bound(offset);
  if (at == objects_.begin()) return nullptr;
  --at;
  return offset - at->first < at->second.bytes ? &at->second : nullptr;
}

object_place address_space::find(void const* address) const {
  auto const at = range_.offset_of(address);
  if (!range_.may_have(at) || in_forked_child()) return {0, 0};
  quiet_lock const lock(mutex_);
  auto const* const o = const_cast<address_space*>(this)->object_at(at);
  return o == nullptr ? object_place{0, 0} : object_place{o->offset, o->bytes};
}

}  // namespace gpufs::shared
