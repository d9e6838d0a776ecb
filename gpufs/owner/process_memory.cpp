#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/at_end.hpp>
#include <gpufs/mapping_settings.hpp>
#include <gpufs/owner/process_memory.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <host-daemon/base/say.hpp>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace gpufs::owner {

namespace {

coherence_protocol protocol_named(std::string const& text) {
  std::string name = text;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "batch") return coherence_protocol::batch;
  if (name == "lazy") return coherence_protocol::lazy;
  if (name == "rolling") return coherence_protocol::rolling;
  reject("GMAC_PROTOCOL", text, "batch, lazy or rolling");
}

std::uint64_t block_of(std::string const& text) {
  constexpr range allowed{.low = 4 * kibi, .high = 32 * mebi, .power_of_two = true};
  auto const bytes = read_size(text);
  if (!bytes || !allowed.contains(*bytes))
    reject("GMAC_BLOCK_SIZE", text, "a power of two from 4K to 32M");
  return *bytes;
}

mapping_config settings_of_environment() {
  mapping_config c = load_mapping_config();
  if (char const* const text = std::getenv("GMAC_PROTOCOL"); text != nullptr && *text != 0)
    c.protocol = protocol_named(text);
  if (char const* const text = std::getenv("GMAC_BLOCK_SIZE"); text != nullptr && *text != 0)
    c.coherence_block = block_of(text);
  return c;
}

std::atomic<process_memory*> of_process{nullptr};

}  // namespace

process_memory::process_memory() : memory_(settings_of_environment()) {}

process_memory* process_memory::existing() noexcept {
  return of_process.load(std::memory_order_acquire);
}

process_memory& process_memory::get() {
  static std::mutex& making = *new std::mutex;
  if (auto* const made = existing()) {
    if (made->process_ == ::getpid()) return *made;
    throw shared_memory_error(EIO, "a child of fork() cannot use its parent's shared memory");
  }
  std::lock_guard const lock(making);
  if (existing() == nullptr) {
    if (!device_available())
      throw shared_memory_error(ENODEV, "no device for shared memory: see `gpufs info`");
    try {
      // Pairs with existing().
      of_process.store(new process_memory, std::memory_order_release);
    } catch (device_error const& e) {  // the device or the system has no such memory
      throw shared_memory_error(ENOMEM, e.what());
    }
  }
  return *existing();
}

void* process_memory::allocate(std::uint64_t bytes) {
  auto m = memory_.allocate(bytes);
  void* const address = m.data();
  std::lock_guard const lock(mutex_);
  objects_.emplace(address, std::move(m));
  return address;
}

int process_memory::free(void* address) {
  auto ended = [&] {
    std::lock_guard const lock(mutex_);
    return objects_.extract(address);
  }();
  return ended.empty() ? -EINVAL : ended.mapped().unmap();  // which may wait for calls
}

int process_memory::map(void* memory, std::uint64_t bytes) {
  auto const first = reinterpret_cast<std::uintptr_t>(memory);
  if (memory == nullptr || bytes == 0 || bytes > ~first) return -EINVAL;
  std::lock_guard const lock(mutex_);
  auto const next = mapped_.lower_bound(first);
  bool const meets_next = next != mapped_.end() && next->first < first + bytes;
  bool const meets_last =
      next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second > first;
  if (meets_next || meets_last || memory_.find(memory).object != nullptr) return -EINVAL;
  auto const made = mapped_.emplace(first, bytes).first;  // first, as it may find no memory
  bool is_shared = false;
  shared::at_end const undo{[&] {
    if (!is_shared) mapped_.erase(made);
  }};
  is_shared = device_memory::share_host_memory(memory, bytes);
  if (!is_shared)
    throw shared_memory_error(
        EOPNOTSUPP, "the device has another address for this memory; use gmacMalloc() instead");
  return 0;
}

int process_memory::unmap(void* memory, std::uint64_t bytes) {
  std::lock_guard const lock(mutex_);
  auto const found = mapped_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == mapped_.end() || found->second != bytes) return -EINVAL;
  mapped_.erase(found);
  device_memory::unshare_host_memory(memory);
  return 0;
}

bool process_memory::is_for_kernels(void const* address) {
  if (memory_.find(address).object != nullptr) return true;
  auto const at = reinterpret_cast<std::uintptr_t>(address);
  std::lock_guard const lock(mutex_);
  auto const behind = mapped_.upper_bound(at);
  return behind != mapped_.begin() && at - std::prev(behind)->first < std::prev(behind)->second;
}

int reported_failure(char const* call) noexcept {
  auto const say = [call](char const* what) { daemon::say("{}: {}", call, what); };
  try {
    try {
      throw;
    } catch (shared_memory_error const& e) {
      say(e.what());
      return -e.code();
    } catch (config_error const& e) {
      say(e.what());
      return -EINVAL;
    } catch (std::bad_alloc const& e) {
      say(e.what());
      return -ENOMEM;
    } catch (std::exception const& e) {
      say(e.what());
      return -EIO;
    }
  } catch (...) {
    return -EIO;
  }
}

}  // namespace gpufs::owner
