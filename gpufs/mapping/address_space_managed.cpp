// Objects in managed memory: the driver moves their bytes. Nobody sees what touches them.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <fmt/format.h>

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

// Takes no mutex.
bool address_space::has_reserved(void const* first, std::uint64_t bytes) const {
  auto const at = reinterpret_cast<std::uintptr_t>(first);
  auto const base = reinterpret_cast<std::uintptr_t>(range_.base());
  return at < base + range_.bytes() && at + bytes > base;
}

bool address_space::has_addresses(void const* first, std::uint64_t bytes) const {
  return has_reserved(first, bytes) || find(first).bytes != 0;
}

std::uint64_t address_space::take_room(std::uint64_t bytes, std::string const& of) {
  // Written so that no sum overflows.
  auto const at = bytes > range_.bytes() ? std::nullopt : free_.take(room_for(bytes));
  if (!at)
    throw shared_memory_error(
        ENOMEM, fmt::format("{}: no {} addresses in a row; raise address_space", of, bytes));
  return *at;
}

// detach() has given managed memory back.
void address_space::give_back_room(std::uint64_t offset, std::uint64_t bytes) noexcept try {
  if (range_.has(offset)) free_.give_back(offset, room_for(bytes));
} catch (std::bad_alloc const&) {  // nobody gets these addresses any more
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
  if (error != 0) throw shared_memory_error(-error, "shared memory: " + why_refused());
} catch (std::bad_alloc const&) {
  throw shared_memory_error(ENOMEM, "shared memory: no host memory left");
}

}  // namespace gpufs::shared
