// Set-up, objects and moves of bytes. Calls and faults are in files of their own.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/no_mappings.hpp>
#include <gpufs/mapping/wait_until.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include <sys/sysinfo.h>

namespace gpufs::shared {

using device_memory::host_access;
using device_memory::host_page;
using device_memory::rounded_up;

namespace {

std::uint64_t memory_of_host() {
  struct sysinfo host {};
  ::sysinfo(&host);
  return std::uint64_t(host.totalram) * host.mem_unit;
}

}  // namespace

address_space::address_space(mapping_config const& settings, spill_file_maker spill_files)
    : settings_(settings),
      device_(current_device_number()),
      range_(settings.address_space, settings.fault_handler == fault_handling::userfault),
      free_(range_.bytes()),
      rolling_(settings),
      tiers_{.make_spill_file = std::move(spill_files),
             .budgets = {settings.device_memory != 0 ? settings.device_memory
                                                     : device_memory::free_device_bytes() / 10 * 9,
                         settings.host_memory != host_memory_automatic ? settings.host_memory
                                                                       : memory_of_host() / 4}},
      bytes_to_pin_(settings.pinned_memory != pinned_automatic ? settings.pinned_memory
                                                               : memory_of_host() / 4) {
  tiers_.most_at_host = tiers_.budgets.host;
  guard_.emplace(range_.base(), range_.bytes(), faults_);
  if (range_.bytes() < settings.address_space)
    notes_.push_back(fmt::format("address_space: {} bytes instead of {}, as the system has no more",
                                 range_.bytes(), settings.address_space));
  if (!range_.why_no_user_faults().empty())
    notes_.push_back("fault_handler: signal, as " + range_.why_no_user_faults());
  no_signals const inherited;  // by the thread
  try {
    if (range_.user_faults() != nullptr) touches_.emplace(range_, faults_);
    service_ = std::thread([this] { serve_faults(); });
  } catch (std::system_error const& e) {
    throw device_error(fmt::format(
        "shared memory: no OS thread for the faults of the CPU: {}; raise ulimit -u", e.what()));
  }
}

address_space::~address_space() {
  {
    quiet_lock lock(mutex_);
    wait_until(lock, [this] { return ending_.empty(); });
  }
  if (touches_) touches_->stop();
  guard_.reset();
  // Pairs with the look of the service thread, which rings() orders.
  stops_.store(true, std::memory_order_release);
  faults_.ring();
  service_.join();
}

void address_space::fail() noexcept {
  has_failed_ = true;
  tell_changes();
}

// Under the mutex: this object may go as soon as no call is under way.
void address_space::tell_changes() {
  changes_.fetch_add(1, std::memory_order_release);
  if (waiters_ != 0) futex_wake(&changes_);
  if (open_faults_ != 0) faults_.ring();
}

mapping_statistics address_space::counts(object const* of) const {
  if (in_forked_child()) return {};
  quiet_lock const lock(mutex_);
  return of == nullptr ? counts_ : of->counts;
}

std::vector<std::string> address_space::notes() const {
  if (in_forked_child()) return {};
  quiet_lock const lock(mutex_);
  return notes_;
}

void address_space::count(object& o, counter what, std::uint64_t n) {
  counts_.*what += n;
  o.counts.*what += n;
}

void address_space::count_moved(object& o, reason why, counter direction, std::uint64_t blocks,
                                std::uint64_t bytes) {
  if (why.blocks != nullptr) count(o, why.blocks, blocks);
  count(o, why.bytes, bytes);
  count(o, direction, bytes);
}

void address_space::queue_send(object& o, block_run r, reason why) {
  for (auto const& part : parts_to_copy(o, o.bytes_in(r))) {
    std::uint64_t const at = o.offset + part.first;
    to_send_.push_back({range_.device_bytes(at), range_.host_bytes(at), part.end - part.first});
  }
  count_moved(o, why, &mapping_statistics::bytes_h2d, r.end - r.first, o.bytes_of(r));
}

void address_space::start_sends() {
  if (to_send_.empty()) return;
  device_memory::copy_to_device(sends_, std::exchange(to_send_, {}));
  is_sending_ = true;
}

void address_space::wait_for_sends() {
  start_sends();
  if (!is_sending_) return;
  sends_.synchronize();
  is_sending_ = has_scattered_ = false;
}

// Blocks whose only memory is the CPU's side are there already.
void address_space::fetch(object& o, block_run r, reason why) {
  wait_for_scattered();
  for (auto const& run : o.on_both_sides(r)) {
    for (auto const& part : parts_to_copy(o, o.bytes_in(run))) {
      std::uint64_t const at = o.offset + part.first;
      device_memory::copy_to_pinned(fetches_, range_.host_bytes(at), range_.device_bytes(at),
                                    part.end - part.first);
    }
    count_moved(o, why, &mapping_statistics::bytes_d2h, run.end - run.first, o.bytes_of(run));
  }
  fetches_.synchronize();
}

// While a call uses blocks on the emulated device, the device's bytes lie there. end_use() sets
// what the CPU may do with them.
int address_space::protect(object& o, block_run r, host_access to) {
  if (!device_memory::shared_range::hands_over || o.uses.empty())
    return range_.protect(o.begin_of(r), o.pages_of(r), to);
  int error = 0;
  for (auto const& free : o.unused(r)) {
    if (error == 0) error = range_.protect(o.begin_of(free), o.pages_of(free), to);
  }
  return error;
}

void address_space::protect_or_throw(object& o, block_run r, host_access to) {
  if (protect(o, r, to) != 0) throw no_mappings();
}

// Sets states and what follows from them in the object's sets, not the protection.
void address_space::set_state(object& o, block_run r, block_state to) {
  std::fill(o.states.begin() + std::ptrdiff_t(r.first), o.states.begin() + std::ptrdiff_t(r.end),
            to);
  if (to == block_state::invalid)
    o.readable.take(r);
  else
    o.readable.add(r);
}

void address_space::forget_dirty(object& o, block_run r) {
  auto const first = o.dirty.lower_bound(r.first), end = o.dirty.lower_bound(r.end);
  for (auto at = first; at != end; ++at) {
    if (at->second != written_.end()) written_.erase(at->second);
  }
  o.dirty.erase(first, end);
}

// Queues the dirty blocks of a run, neighbours together. They are read_only afterwards.
void address_space::clean(object& o, block_run r, reason why) {
  auto const all = o.dirty_runs(r);
  forget_dirty(o, r);
  for (auto const& run : all) {
    set_state(o, run, block_state::read_only);
    queue_send(o, run, why);
  }
}

// The system has no more mappings: makes all blocks of the object alike. No call uses it. Blocks
// that the device lacks are in the file, so all are invalid then.
void address_space::merge(object& o) {
  constexpr reason why{nullptr, &mapping_statistics::merged_bytes};
  protect_or_throw(o, o.all(), host_access::none);
  clean(o, o.all(), why);
  wait_for_sends();
  if (o.lacks(o.all())) return set_state(o, o.all(), block_state::invalid);
  block_runs missing;
  missing.add(o.all());
  for (auto const& run : o.readable.runs()) missing.take(run);
  for (auto const& run : missing.runs()) fetch(o, run, why);
  set_state(o, o.all(), block_state::read_only);
  protect_or_throw(o, o.all(), host_access::read);
}

}  // namespace gpufs::shared
