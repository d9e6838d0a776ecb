// Set-up, and what all files of the class need.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/futex.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include <sys/sysinfo.h>

namespace gpufs::shared {

namespace {

std::uint64_t memory_of_host() {
  struct sysinfo host {};
  ::sysinfo(&host);
  return std::uint64_t(host.totalram) * host.mem_unit;
}

}  // namespace

address_space::address_space(mapping_config const& settings, spill_file_maker spill_files,
                             profile_keeper profile)
    : settings_(settings),
      device_(current_device_number()),
      range_(settings.backing == memory_backing::managed ? 0 : settings.address_space,
             settings.fault_handler == fault_handling::userfault, settings.guard_read_only),
      transfers_(range_,
                 settings.pinned_memory != pinned_automatic ? settings.pinned_memory
                                                            : memory_of_host() / 4,
                 notes_),
      states_(settings, range_, transfers_),
      files_(range_, device_, settings.fill_threads),
      free_(range_.bytes()),
      tiers_{.make_spill_file = std::move(spill_files),
             .budgets = {settings.device_memory != 0 ? settings.device_memory
                                                     : device_memory::free_device_bytes() / 10 * 9,
                         settings.host_memory != host_memory_automatic ? settings.host_memory
                                                                       : memory_of_host() / 4}},
      profile_(std::move(profile)) {
  tiers_.most_at_host = tiers_.budgets.host;
  if (range_.bytes() != 0) guard_.emplace(range_.base(), range_.bytes(), faults_);
  if (range_.bytes() != 0 && range_.bytes() < settings.address_space)
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

int address_space::lacks_memory() noexcept {
  try {
    why_refused_ = "no host memory left";
  } catch (std::bad_alloc const&) {
    why_refused_.clear();
  }
  return -ENOMEM;
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
  return of == nullptr ? transfers_.counts() : of->counts;
}

std::vector<std::string> address_space::notes() const {
  if (in_forked_child()) return {};
  quiet_lock const lock(mutex_);
  auto all = notes_;
  if (auto const why = range_.why_not_guarded(); !why.empty())
    all.push_back("guard_read_only: off for chunks in GPU memory, as the driver refused: " + why);
  return all;
}

}  // namespace gpufs::shared
