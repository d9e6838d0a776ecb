// The public classes of shared memory, over address spaces.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/owner/file_text.hpp>
#include <gpufs/owner/profile_file.hpp>
#include <gpufs/owner/setting_kinds.hpp>
#include <gpufs/owner/shared_file.hpp>
#include <gpufs/owner/shared_launches.hpp>

#include <host-daemon/base/say.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <fcntl.h>

namespace gpufs {

// Only programs with gpufs_wrap_io() have it.
extern "C" __attribute__((weak)) char const gpufs_io_is_wrapped;

namespace {

using shared::address_space;

void check_block(std::uint64_t block, char const* name) {
  constexpr std::uint64_t least = 4 << 10, most = 32 << 20;
  if (block == block_automatic || (std::has_single_bit(block) && block >= least && block <= most))
    return;
  owner::reject(name, std::to_string(block), "auto (0) or a power of two from 4K to 32M");
}

void check(address_space const& space, map_options const& options) {
  check_block(options.block.value_or(block_automatic), "block");
  if (options.coherent)
    owner::reject("coherent", "true",
                  "false, as bytes of a page are not merged with those of other writers yet; let "
                  "each page of 4 KiB of a file have one writer between two calls of sync()");
  if (space.has_only_managed() && !space.is_to_be_managed(options))
    owner::reject("backing", "auto",
                  "managed or not given, as with the setting backing = managed no addresses are "
                  "reserved for others; set backing = auto, and managed for single objects");
}

// The protocol may be that of the settings, and not all are possible.
map_options for_file(address_space const& space, map_options const& options) {
  check(space, options);
  auto chosen = options;
  chosen.protocol = space.protocol_for(options);
  return chosen;
}

fault_handling fault_handler_of(mapping_config const& c) {
  if (c.fault_handler != fault_handling::automatic) return c.fault_handler;
  auto const s = std::ranges::find(mapping_settings(), "fault_handler", &mapping_setting::key);
  auto const variable = s->environment_name();
  mapping_config of_process;
  if (char const* const value = std::getenv(variable.c_str()); value != nullptr)
    s->assign(of_process, value, variable);
  return of_process.fault_handler;
}

}  // namespace

// mapping

mapping::~mapping() {
  int const result = unmap();
  if (result != 0)
    daemon::say("bytes of a shared object are lost, as it was destroyed: {}",
                std::strerror(-result));
}

mapping& mapping::operator=(mapping&& other) noexcept {
  mapping before(std::move(*this));  // unmaps at the end
  space_ = std::move(other.space_);
  object_ = std::exchange(other.object_, nullptr);
  return *this;
}

void* mapping::data() const {
  return space_ == nullptr ? nullptr : space_->address_of(object_->offset);
}

std::uint64_t mapping::size() const { return space_ == nullptr ? 0 : object_->bytes; }

int mapping::acquire(std::uint64_t first, std::uint64_t bytes, access use) {
  if (space_ == nullptr || !owner::lies_in(first, bytes, size())) return -EINVAL;
  return space_->acquire(*object_, {first, bytes, use});
}

int mapping::advise(std::uint64_t first, std::uint64_t bytes, memory_advice advice) {
  if (space_ == nullptr || !owner::lies_in(first, bytes, size())) return -EINVAL;
  space_->advise(*object_, object_->blocks_of(first, bytes), advice);
  return 0;
}

memory_tiers mapping::tiers() const {
  return space_ == nullptr ? memory_tiers{} : space_->tiers(object_);
}

int mapping::prefetch_to_device(std::uint64_t first, std::uint64_t bytes) {
  if (space_ == nullptr || !owner::lies_in(first, bytes, size())) return -EINVAL;
  return space_->send(*object_, object_->blocks_of(first, bytes));
}

int mapping::sync(std::uint64_t first, std::uint64_t bytes) {
  if (space_ == nullptr || !owner::lies_in(first, bytes, size())) return -EINVAL;
  return space_->write_back(*object_, {first, first + bytes}, true);
}

int mapping::sync() { return sync(0, size()); }

int mapping::write_back() {
  return space_ == nullptr ? -EINVAL : space_->write_back(*object_, {0, size()}, false);
}

int mapping::refresh() { return space_ == nullptr ? -EINVAL : space_->refresh(*object_); }

int mapping::discard() { return space_ == nullptr ? -EINVAL : space_->discard(*object_); }

int mapping::remap(access use) try {
  return space_ == nullptr ? -EINVAL : space_->remap(*object_, use, owner::open_to_remap);
} catch (shared_memory_error const& e) {
  return -e.code();
} catch (std::bad_alloc const&) {
  return -ENOMEM;
}

std::vector<std::string> mapping::errors() const {
  return space_ == nullptr ? std::vector<std::string>{} : space_->errors(*object_);
}

std::vector<byte_range> mapping::unwritten() const {
  std::vector<byte_range> all;
  if (space_ == nullptr) return all;
  for (auto const& r : space_->unwritten(*object_)) all.push_back({r.first, r.end - r.first});
  return all;
}

int mapping::unmap() {
  if (space_ == nullptr) return 0;
  auto const space = std::exchange(space_, nullptr);
  return space->remove(*std::exchange(object_, nullptr));
}

mapping_statistics mapping::stats() const {
  return space_ == nullptr ? mapping_statistics{} : space_->counts(object_);
}

// shared_memory

shared_memory::shared_memory(mapping_config const& settings) {
  validate(settings);
  shared::spill_file_maker spill_files;
  if (!settings.spill_dir.empty()) {
    auto const folder = owner::absolute_path("spill_dir", settings.spill_dir);
    spill_files = [folder] { return owner::make_spill_file(folder); };
    static_cast<void>(spill_files());  // a bad folder shows here
  }
  mapping_config chosen = settings;
  chosen.fault_handler = fault_handler_of(settings);
  auto profile =
      owner::open_profile(settings.mapping_profile, settings.backing == memory_backing::managed);
  // In a child of fork() threads and device are the parent's: all stays as it is.
  space_ = std::shared_ptr<address_space>(
      new address_space(chosen, std::move(spill_files), std::move(profile)), [](address_space* s) {
        if (!s->in_forked_child()) delete s;
      });
  owner::watch_launches(space_);
}

shared_memory::~shared_memory() = default;

mapping shared_memory::allocate(std::uint64_t bytes, map_options const& options) {
  check(*space_, options);
  return {space_, space_->allocate(bytes, options)};
}

mapping shared_memory::map(std::string const& path, map_options const& options) {
  auto const chosen = for_file(*space_, options);
  owner::write_back_at_exit();
  return {space_, space_->map_file(owner::open_to_map(path, path, chosen), chosen)};
}

mapping shared_memory::map(int fd, map_options const& options) {
  auto const chosen = for_file(*space_, options);
  owner::write_back_at_exit();
  if (::fcntl(fd, F_GETFD) < 0)
    throw shared_memory_error(EBADF, fmt::format("shared memory: descriptor {}: not open", fd));
  auto const path = "/proc/self/fd/" + std::to_string(fd);
  return {space_,
          space_->map_file(owner::open_to_map(path, "descriptor " + std::to_string(fd), chosen),
                           chosen)};
}

namespace {

// Also if a kernel has failed: what it has written counts, and the CPU's later writes, too.
template <class Wait>
void wait_and_acquire(address_space& space, Wait const& wait) {
  try {
    wait();
  } catch (...) {
    space.acquire_batches();
    throw;
  }
  space.acquire_batches();
}

}  // namespace

void shared_memory::synchronize() {
  wait_and_acquire(*space_, [this] {
    space_->wait_for_calls();
    // There is not much left to wait for. A signal's handler that touches an object would wait for
    // a thread that waits for this one.
    shared::no_signals const quiet;
    shared::device_scope const here(space_->device());
    gpufs::synchronize();
  });
}

void shared_memory::synchronize(stream& on) {
  wait_and_acquire(*space_, [&] { shared::wait_for(on); });
}

shared_place shared_memory::find(void const* address) const {
  auto const found = space_->find(address);
  if (found.bytes == 0) return {nullptr, 0, 0};
  return {space_->address_of(found.offset), space_->offset_of(address) - found.offset, found.bytes};
}

memory_tiers shared_memory::tiers() const { return space_->tiers(); }

mapping_statistics shared_memory::stats() const { return space_->counts(); }

std::vector<std::string> shared_memory::notes() const {
  auto all = space_->notes();
  if (&gpufs_io_is_wrapped == nullptr && !space_->lets_system_calls_wait())
    all.emplace_back(
        "system calls of the program fail with EFAULT on bytes that the CPU would have to fetch; "
        "link it with gpufs_wrap_io(), or use shared_memory::read() and the like");
  return all;
}

}  // namespace gpufs
