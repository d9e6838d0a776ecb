// Registering file windows that are read, and making room for them.
#include <gpufs/advice.hpp>
#include <gpufs/base/mix64.hpp>
#include <gpufs/rpc/window_format.hpp>

#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/base/os_page_cache.hpp>
#include <host-daemon/base/overlay_file.hpp>
#include <host-daemon/base/thread.hpp>
#include <host-daemon/device_work/window_registrar.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include <sys/stat.h>

namespace gpufs::daemon {

namespace {

constexpr unsigned turns_until_asked_again = 10;
constexpr std::uint64_t no_entry = ~0ull;
constexpr std::uint64_t host_page = 4096;  // for the sums

}  // namespace

window_registrar::window_registrar(std::unique_ptr<window_mapper> mapper, window_settings settings,
                                   fault_injector* faults)
    : mapper_{std::move(mapper)},
      settings_{std::move(settings)},
      faults_{faults},
      demand_{settings_.window_bytes},
      taken_(mapper_->entries()) {
  thread_ = start_thread("set registered_memory to 0", [this] { serve(); });
}

window_registrar::~window_registrar() {
  stop_.store(true, std::memory_order_release);  // pairs with the acquire in serve()
  offers_.wake();
  thread_.join();
}

std::uint64_t window_registrar::key_of(std::uint64_t version, std::uint64_t window) noexcept {
  return base::mix64(version * 0x9e3779b97f4a7c15ull ^ window) |
         1ull << 63;  // never 0, which stands for nothing
}

registrable_file may_register(rpc::shared_region const& region, std::int32_t descriptor,
                              registered_files which) noexcept {
  auto& record = region.open_files[rpc::descriptor_index(descriptor)];
  // Pair with the registry's releases, as on the device: write index and flags are at least as new
  // as the version.
  auto const load = [](std::uint64_t& word) {
    return std::atomic_ref<std::uint64_t>{word}.load(std::memory_order_acquire);
  };
  auto const generation = rpc::descriptor_generation(descriptor);
  if (load(record.tag) != generation) return {};
  auto const version = load(record.version);
  bool const is_written = load(record.write_index) != 0 || for_writing(int(load(record.flags)));
  auto const advised = advice(load(record.advice));
  bool const is_all = which == registered_files::all;
  bool const is_meant =
      is_all || (which == registered_files::noticed && advised != advice::sequential);
  if (load(record.tag) != generation || is_written || !is_meant) return {};
  return {version, is_all || advised == advice::random};
}

void window_registrar::touched(std::uint64_t version,
                               std::shared_ptr<stored_file const> const& file, std::uint64_t offset,
                               std::uint64_t length) noexcept {
  if (!takes_offers()) return;
  auto const last = (offset + length - 1) / settings_.window_bytes;
  for (auto window = offset / settings_.window_bytes; window <= last; ++window)
    if (!is_known(key_of(version, window)) && !offer(version, window, file)) return;
}

void window_registrar::read_at_random(std::uint64_t version,
                                      std::shared_ptr<stored_file const> const& file,
                                      std::uint64_t offset, std::uint64_t length,
                                      bool for_elements) noexcept {
  if (!takes_offers()) return;
  auto const size = settings_.window_bytes;
  for (auto const end = offset + length; offset < end;) {
    auto const window = offset / size;
    auto const part = std::min(end, (window + 1) * size) - offset;
    offset += part;
    auto const key = key_of(version, window);
    if (is_known(key) || !demand_.add(key, staging_cost(part, for_elements))) continue;
    if (!offer(version, window, file)) return;
  }
}

// Returns false if the queue is full.
bool window_registrar::offer(std::uint64_t version, std::uint64_t window,
                             std::shared_ptr<stored_file const> const& file) noexcept {
  auto const key = key_of(version, window);
  auto& entry = asked(key);
  // Before the offer, which orders it: the thread may empty the entry when it has the offer.
  entry.store(key, std::memory_order_relaxed);
  if (offers_.add({version, window, file})) return true;
  auto refused = key;  // a later read of the window offers it again
  entry.compare_exchange_strong(refused, 0, std::memory_order_relaxed);
  return false;
}

void window_registrar::serve() noexcept {
  set_up_thread("gpufs-map");
  using clock = std::chrono::steady_clock;
  auto next_turn = clock::now() + settings_.turn;
  for (;;) {
    auto next = offers_.take(has_work_left() ? std::optional{next_turn} : std::nullopt);
    // Pairs with the release in the destructor.
    if (stop_.load(std::memory_order_acquire)) break;
    try {
      if (next) consider(*next);
    } catch (std::bad_alloc const&) {  // not this time
      put_off();
    }
    next.reset();
    if (has_work_left() && clock::now() >= next_turn) {
      make_room();
      next_turn = clock::now() + settings_.turn;
    }
  }
  for (auto const* const windows : {&live_, &retired_, &kept_})
    for (auto const& w : *windows) mapper_->unmap(w.mapped);
}

void window_registrar::consider(window_offer const& o) {
  struct ::stat status {};
  if (off_.load(std::memory_order_relaxed) || o.file->status(status) != 0) return;
  if (refused_.contains(status.st_dev) || is_superseded(status, o)) return;
  auto const size = std::uint64_t(status.st_size);
  auto const begin = o.window * settings_.window_bytes;
  if (begin >= size || size < settings_.window_bytes / smallest_part) return;
  auto const bytes = std::min(settings_.window_bytes, size - begin);
  auto const charge = (bytes + host_page - 1) / host_page * host_page;
  if (is_on_overlay(o.file->read_descriptor())) return;
  if (!is_warm(o.file->read_descriptor(), begin, bytes)) return put_off();
  if (in_use_.load(std::memory_order_relaxed) + charge > settings_.budget ||
      live_.size() >= taken_.size() / 2) {
    // Makes room for a part of the windows only. The windows that stay have time to pay back the
    // cost of their registration.
    wanted_ = std::min(wanted_ + charge, std::max(settings_.budget / 4, charge));
    return put_off();
  }
  auto const entry = free_entry(o.version, o.window);
  if (entry != no_entry) map(o, status, bytes, charge, entry);
}

// Returns whether windows of a newer version of the file are there, or this very one. Retires those
// of older versions.
bool window_registrar::is_superseded(struct ::stat const& status, window_offer const& o) {
  for (auto w = live_.begin(); w != live_.end();) {
    auto const next = std::next(w);
    if (w->device == status.st_dev && w->inode == status.st_ino) {
      if (w->version > o.version || (w->version == o.version && w->window == o.window)) return true;
      if (w->version < o.version) retire(w);
    }
    w = next;
  }
  return false;
}

// Returns whether the OS page cache has the window, but for few pages. The disk would have to
// deliver the others before the window is registered.
bool window_registrar::is_warm(int fd, std::uint64_t begin, std::uint64_t bytes) const {
  if (auto const part = ask_cachestat(settings_.cachestat, fd, begin, bytes))
    return 16 * part->cached >= 15 * part->pages;
  constexpr std::uint64_t samples = 16;
  for (std::uint64_t i = 0; i < samples; ++i)
    // A file system that does not tell keeps its files in memory, or had to read the bytes to get
    // here.
    if (!is_byte_cached(fd, begin + (bytes - 1) * i / (samples - 1)).value_or(true)) return false;
  return true;
}

std::uint64_t window_registrar::free_entry(std::uint64_t version,
                                           std::uint64_t window) const noexcept {
  auto const home = rpc::window_home(version, window);
  for (unsigned i = 0; i < rpc::window_probes; ++i)
    if (auto const entry = (home + i) & (taken_.size() - 1); !taken_[entry]) return entry;
  return no_entry;
}

void window_registrar::map(window_offer const& o, struct ::stat const& status, std::uint64_t bytes,
                           std::uint64_t charge, std::uint64_t entry) {
  auto const begin = o.window * settings_.window_bytes;
  std::list<live_window> made;  // first, as it may find no memory
  made.push_back({o.version, o.window, status.st_dev, status.st_ino, entry, charge, {}});
  auto& w = made.front();
  std::string why;
  auto const outcome = map_for_device(o, bytes, w.mapped, why);
  struct ::stat now {};
  auto const size = o.file->status(now) == 0 ? std::uint64_t(now.st_size) : 0;
  if (outcome != window_mapper::outcome::mapped) {
    if (size < begin + bytes) return put_off();  // it has become shorter: that was why
    if (outcome == window_mapper::outcome::no_device) return turn_off(why);
    refused_.insert(status.st_dev);
    return note(why, "a file system does not let its files be mapped", why);
  }
  in_use_.fetch_add(charge, std::memory_order_relaxed);
  // Pages behind the end of a file that was cut off just now hold no file bytes.
  auto const usable = size <= begin ? 0 : std::min(w.mapped.bytes, size - begin);
  if (usable == 0) {
    retired_.splice(retired_.end(), made);
    return;
  }
  if (!mapper_->publish(entry, {o.version, o.window, w.mapped.address, usable})) {
    retired_.splice(retired_.end(), made);
    return turn_off("the device refuses a copy");
  }
  taken_[entry] = true;
  live_.splice(live_.end(), made);
  registered_.fetch_add(1, std::memory_order_relaxed);
}

void window_registrar::turn_off(std::string const& why) noexcept {
  off_.store(true, std::memory_order_relaxed);
  note("off", "files are not mapped for the device any more", why);
}

// A note only if the program asked for registered files.
void window_registrar::note(std::string const& key, char const* what,
                            std::string const& why) noexcept {
  if (settings_.which != registered_files::all) return;
  try {
    notes_.add(key,
               fmt::format("io_path=registered: {} ({}); they are read as with auto", what, why));
  } catch (std::bad_alloc const&) {  // then it goes unsaid
  }
}

// Unmaps retired windows, and retires windows whose room others need: only when no kernel seems to
// run.
void window_registrar::make_room() noexcept {
  if ((!retired_.empty() || wanted_ != 0) && mapper_->idle()) {
    auto left = in_use_.load(std::memory_order_relaxed);
    for (auto const& w : retired_) left -= w.charge;
    while (!live_.empty() &&
           (left + wanted_ > settings_.budget || live_.size() >= taken_.size() / 2)) {
      left -= live_.front().charge;
      retire(live_.begin());
    }
    wanted_ = 0;
    for (auto const& w : retired_) {
      mapper_->unmap(w.mapped);
      in_use_.fetch_sub(w.charge, std::memory_order_relaxed);
    }
    retired_.clear();
    turns_ = turns_until_asked_again;
  }
  if (++turns_ >= turns_until_asked_again) {
    turns_ = 0;
    if (std::exchange(put_off_, false))
      for (auto& entry : asked_) entry.store(0, std::memory_order_relaxed);
  }
}

// Takes a window away from kernels. Kernels that found it earlier may still pull from it.
void window_registrar::retire(std::list<live_window>::iterator w) noexcept {
  auto const key = key_of(w->version, w->window);
  if (asked(key).load(std::memory_order_relaxed) == key)
    asked(key).store(0, std::memory_order_relaxed);
  retired_count_.fetch_add(1, std::memory_order_relaxed);
  if (mapper_->withdraw(w->entry)) {
    taken_[w->entry] = false;
    retired_.splice(retired_.end(), live_, w);
  } else {
    kept_.splice(kept_.end(), live_, w);  // kernels may find it for ever
    turn_off("the device refuses a copy");
  }
}

}  // namespace gpufs::daemon
