// Bytes of I/O calls: into objects and out of them, without faults. They go to the side that has
// the newest bytes.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/no_mappings.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <span>

namespace gpufs::shared {

namespace {

constexpr bool by_any = true;

// The parts of [at, at + bytes) in each block, in turn.
template <class Function>
void for_each_block(object const& o, std::uint64_t at, std::uint64_t bytes,
                    Function const& function) {
  std::uint64_t const first = at - o.offset, end = first + bytes;
  for (std::uint64_t now = first; now < end;) {
    std::uint64_t const block = now / o.block_bytes;
    std::uint64_t const next = std::min(end, (block + 1) * o.block_bytes);
    function(block, at + (now - first), next - now, now - first);
    now = next;
  }
}

int read_all(backing_file const& file, std::span<std::byte> to, std::uint64_t offset) {
  auto const got = file.read(to, offset);
  if (got.bytes < 0) return int(got.bytes);
  return std::uint64_t(got.bytes) == to.size() ? 0 : -ESTALE;
}

}  // namespace

object* address_space::object_with(std::uint64_t at, std::uint64_t bytes) {
  object* const o = object_at(at);
  return o != nullptr && bytes <= o->bytes - (at - o->offset) ? o : nullptr;
}

// Waits until calls let go of the bytes. Null: no object has all of them.
object* address_space::wait_for_calls(quiet_lock& lock, std::uint64_t at, std::uint64_t bytes,
                                      bool writes) {
  object* o = nullptr;
  wait_until(lock, [&] {  // the object may go meanwhile
    o = object_with(at, bytes);
    if (o == nullptr || has_failed_) return true;
    auto const blocks = o->blocks_of(at - o->offset, bytes);
    return !(writes && o->is_still(blocks)) && !o->is_used(blocks, writes ? by_any : !by_any);
  });
  return o;
}

// The same, and brings the bytes of a file that the device lacks. Null: an error.
object* address_space::wait_for_bytes(quiet_lock& lock, std::uint64_t at, std::uint64_t bytes,
                                      bool writes, int& error) {
  for (error = 0;;) {
    object* const o = wait_for_calls(lock, at, bytes, writes);
    if (o == nullptr || (writes && o->is_read_only())) {
      error = o == nullptr ? -EFAULT : -EACCES;
      return nullptr;
    }
    auto const blocks = o->blocks_of(at - o->offset, bytes);
    if (has_failed_ || o->shows_file() || !o->lacks(blocks)) return o;
    error = bring(lock, *o, blocks);
    if (error != 0) return nullptr;
  }
}

bool address_space::is_home_at_device(object const& o, std::uint64_t block) const {
  if (o.protocol == coherence_protocol::batch) return o.is_sent();
  return o.states[block] == block_state::invalid && !o.single.contains(block);
}

staging_pool::lease address_space::take_staging(std::uint64_t bytes) {
  no_signals const quiet;
  device_scope const here(device_);
  return bytes < staging_piece::size ? small_staging_.take(staging_piece::small_size)
                                     : staging_.take(staging_piece::size);
}

void address_space::wait_for_use(std::uint64_t at, std::uint64_t bytes, bool writes) {
  if (in_forked_child()) return;
  quiet_lock lock(mutex_);
  static_cast<void>(wait_for_calls(lock, at, bytes, writes));
}

int address_space::make_ready(std::uint64_t at, std::uint64_t bytes) {
  if (in_forked_child()) return -EFAULT;
  quiet_lock lock(mutex_);
  int error = 0;
  object const* const o = wait_for_bytes(lock, at, bytes, true, error);
  if (o == nullptr) return error;
  return has_failed_ ? -EIO : 0;
}

int address_space::scatter(std::uint64_t at, staging_piece& from, std::uint64_t bytes) {
  if (in_forked_child()) return -EFAULT;
  quiet_lock lock(mutex_);
  int error = 0;
  object* const o = wait_for_bytes(lock, at, bytes, true, error);
  if (o == nullptr) return error;
  if (has_failed_) return -EIO;
  bool is_short = false;
  try {
    device_scope const here(device_);
    for_each_block(*o, at, bytes, [&](auto block, auto to, auto count, auto done) {
      std::byte const* const source = from.bytes.data() + done;
      if (!is_home_at_device(*o, block) && scatter_to_host(*o, block, to, {source, count})) return;
      transfers_.queue_scattered(to, source, count);
      // The CPU's side lacks this.
      if (o->protocol == coherence_protocol::batch) o->is_at_device = o->is_changed = true;
      if (o->file != nullptr) o->file->changed.add({block, block + 1});
      transfers_.count_moved(*o, {nullptr, &mapping_statistics::io_h2d_bytes},
                             &mapping_statistics::bytes_h2d, 0, count);
    });
    transfers_.start_sends();
    from.copied.record(transfers_.sends());
    spill(lock, false);
    return 0;
  } catch (no_mappings const&) {
    is_short = true;
  } catch (std::bad_alloc const&) {
    is_short = true;
  } catch (std::exception const&) {
  }
  // The device may read the piece.
  try {
    if (is_short) return transfers_.wait_for_sends(), -ENOMEM;
  } catch (std::exception const&) {
  }
  fail();
  wait_for_end(transfers_.sends());
  return -EIO;
}

// Protected and dirty first, as if the CPU had written through the object's addresses. Returns
// false if the device shall get the bytes, too: the block cannot be opened, as the system has no
// more mappings. A pipe would have lost them.
bool address_space::scatter_to_host(object& o, std::uint64_t block, std::uint64_t to,
                                    std::span<std::byte const> bytes) {
  bool is_open = true;
  if (o.protocol != coherence_protocol::batch && o.states[block] != block_state::dirty) try {
      states_.make_readable(o, {block, block + 1}, allowed(block_state::dirty));
      make_dirty(o, block, true);
      if (!has_failed_) states_.evict_beyond_limit();
      transfers_.start_sends();
    } catch (no_mappings const&) {
      if (o.states[block] != block_state::read_only && !o.single.contains(block)) throw;
      is_open = false;
    }
  std::memcpy(range_.host_bytes(to), bytes.data(), bytes.size());
  if (is_open || !o.single.contains(block)) return is_open;
  tiers_.keep(o, o.chunk_of(block));
  if (o.file != nullptr) o.file->changed.add({block, block + 1});
  return true;  // the device uses these bytes, or gets them when it needs them
}

int address_space::gather(std::uint64_t at, staging_piece& to, std::uint64_t bytes) {
  if (in_forked_child()) return -EFAULT;
  quiet_lock lock(mutex_);
  int error = 0;
  object* const o = wait_for_bytes(lock, at, bytes, false, error);
  if (o == nullptr) return error;
  if (o->shows_file()) {
    // Not from the mapping: if the file has become shorter, that would raise SIGBUS. The object may
    // go meanwhile, the file stays.
    auto const file = o->file->file;
    std::uint64_t const first = o->file->offset + (at - o->offset);
    lock.without([&] { error = read_all(*file, {to.bytes.data(), bytes}, first); });
    return error;
  }
  try {
    device_scope const here(device_);
    transfers_.wait_for_scattered();
    bool is_lost = false;
    for_each_block(*o, at, bytes, [&](auto block, auto from, auto count, auto done) {
      std::byte* const target = to.bytes.data() + done;
      if (!is_home_at_device(*o, block)) {
        // A page that nobody has written gets memory by this, too.
        if (tiers_.can_spill(*o)) tiers_.keep(*o, o->chunk_of(block));
        std::memcpy(target, range_.host_bytes(from), count);
        return;
      }
      is_lost = is_lost || has_failed_;
      if (is_lost) return;
      transfers_.start_fetch(target, from, count);
      transfers_.count_moved(*o, {nullptr, &mapping_statistics::io_d2h_bytes},
                             &mapping_statistics::bytes_d2h, 0, count);
    });
    to.copied.record(transfers_.fetches());
    spill(lock, false);
    return is_lost ? -EIO : 0;
  } catch (std::bad_alloc const&) {
    wait_for_end(transfers_.fetches());  // it may write the piece
    return -ENOMEM;
  } catch (std::exception const&) {
    fail();
    wait_for_end(transfers_.fetches());  // it may write the piece
    return -EIO;
  }
}

// Waits without the mutex. Copies of a piece take far less than a millisecond.
int address_space::wait_for_copies(staging_piece const& piece) noexcept {
  no_signals const quiet;
  try {
    device_scope const here(device_);
    piece.copied.synchronize();
    return 0;
  } catch (std::exception const&) {
    quiet_lock const lock(mutex_);
    fail();
    return -EIO;
  }
}

}  // namespace gpufs::shared
