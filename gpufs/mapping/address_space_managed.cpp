// Objects in managed memory: the driver moves their bytes. Nobody sees what touches them.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

namespace gpufs::shared {

bool address_space::has_addresses(void const* first, std::uint64_t bytes) const {
  auto const at = reinterpret_cast<std::uintptr_t>(first);
  if (range_.is_managed()) return find(at).bytes != 0;
  auto const base = reinterpret_cast<std::uintptr_t>(range_.base());
  return at < base + range_.bytes() && at + bytes > base;
}

// Nothing: there are not so many addresses in a row.
std::optional<std::uint64_t> address_space::take_room(std::uint64_t room, std::string const& name) {
  if (!range_.is_managed()) return free_.take(room);
  try {
    return range_.attach_managed(room);
  } catch (device_error const& e) {
    throw shared_memory_error(ENOMEM, name + ": " + e.what());
  }
}

// detach() has given managed memory back.
void address_space::give_back_room(std::uint64_t offset, std::uint64_t room) {
  if (!range_.is_managed()) free_.give_back(offset, room);
}

// One memory, which the device uses as it uses the host's.
void address_space::set_up_managed(object& o) {
  o.is_managed = true;
  std::uint64_t const chosen =
      settings_.chunk_size == chunk_automatic ? 64ull << 20 : settings_.chunk_size;
  o.chunk_bytes = std::max(chosen, o.block_bytes);
  o.chunks.resize((o.bytes + o.chunk_bytes - 1) / o.chunk_bytes, chunk{.where = tier::host});
  for (std::size_t i = 0; i < o.chunks.size(); ++i) {
    ++tiers_.single_chunks;
    tiers_.bytes[std::size_t(tier::host)] += o.room_of_chunk(i);
  }
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
