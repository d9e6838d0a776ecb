// Objects in managed memory: the driver moves their bytes. Nobody sees what touches them.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

namespace gpufs::shared {

namespace {

std::uint64_t room_for(std::uint64_t bytes) {
  return device_memory::rounded_up(bytes, device_memory::shared_range::granularity);
}

}  // namespace

bool address_space::is_to_be_managed(map_options const& options) const {
  return options.backing.value_or(settings_.backing) == memory_backing::managed;
}

bool address_space::has_addresses(void const* first, std::uint64_t bytes) const {
  auto const at = reinterpret_cast<std::uintptr_t>(first);
  auto const base = reinterpret_cast<std::uintptr_t>(range_.base());
  bool const is_reserved = at < base + range_.bytes() && at + bytes > base;
  return is_reserved || find(first).bytes != 0;
}

// Nothing: there are not so many addresses in a row.
std::optional<std::uint64_t> address_space::take_room(std::uint64_t bytes, bool managed,
                                                      std::string const& of) {
  // Written so that no sum overflows.
  auto const most = managed ? device_memory::shared_range::all_addresses : range_.bytes();
  if (bytes > most) return std::nullopt;
  if (!managed) return free_.take(room_for(bytes));
  try {
    return range_.attach_managed(room_for(bytes));
  } catch (device_error const& e) {
    throw shared_memory_error(ENOMEM, of + ": " + e.what());
  }
}

// detach() has given managed memory back.
void address_space::give_back_room(std::uint64_t offset, std::uint64_t bytes) {
  if (range_.has(offset)) free_.give_back(offset, room_for(bytes));
}

// One memory, which the device uses as it uses the host's.
void address_space::set_up_managed(object& o) {
  std::uint64_t const chosen =
      settings_.chunk_size == chunk_automatic ? 64ull << 20 : settings_.chunk_size;
  o.chunk_bytes = std::max(chosen, o.block_bytes);
  o.chunks.resize((o.bytes + o.chunk_bytes - 1) / o.chunk_bytes, chunk{.where = tier::host});
  for (std::size_t i = 0; i < o.chunks.size(); ++i) tiers_.managed_bytes += o.room_of_chunk(i);
  o.single.add(o.all());
}

// Before anybody uses the object: no touch would wait for its bytes.
void address_space::fill_managed(object& o) try {
  int error = 0;
  {
    quiet_lock lock(mutex_);
    why_refused_.clear();
    error = fill(lock, o, o.file->units_of(0, o.bytes));
  }
  if (error != 0) throw shared_memory_error(-error, "shared memory: " + why_refused_);
} catch (std::bad_alloc const&) {
  throw shared_memory_error(ENOMEM, "shared memory: no host memory left");
}

// What is absent could not be read, and is not written over.
void address_space::count_all_as_changed(object& o, block_run blocks) {
  block_runs some;
  some.add(blocks);
  for (auto const& run : o.present(some)) o.file->changed.add(run);
}

}  // namespace gpufs::shared
