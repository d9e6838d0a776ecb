#include <host-daemon/base/idle_policy.hpp>

#include <nvme-host/drive.hpp>
#include <nvme-host/errors.hpp>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace gpufs::nvme_host {

namespace {

constexpr std::uint32_t most_slots = 32;  // of a queue pair
constexpr std::uint64_t most_piece = 128 << 10;
constexpr std::uint32_t most_queues = 65534;  // that can be asked for

std::uint64_t nanoseconds_since(io_clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(io_clock::now() - begin).count());
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

drive::drive(std::unique_ptr<controller_link> link, std::string name, drive_options const& options)
    : link_{std::move(link)},
      name_{std::move(name)},
      options_{options},
      plane_{*link_, {.memory = anonymous_memory(), .admin_timeout = options.timeout}} {
  plane_.bring_up();
  controller_ = plane_.identify_controller();
  if (options_.nsid == 0 || options_.nsid > controller_.namespaces)
    throw controller_error{"nvme: namespace " + std::to_string(options_.nsid) +
                           ", the drive has 1 to " + std::to_string(controller_.namespaces)};
  identity_ = plane_.identify_namespace(options_.nsid);
  std::uint64_t const most = controller_.most_bytes == 0 ? most_piece : controller_.most_bytes;
  piece_bytes_ = static_cast<std::uint32_t>(std::min(most, most_piece));
  make_queues();
}

// Commands may be under way only if some were given up.
drive::~drive() {
  if (!is_broken() && !oldest_given_up()) return;
  if (lost_.load(std::memory_order_relaxed)) return;
  if (plane_.stop() || plane_.is_late()) return;
  for (auto const& queue : queues_) queue->leak();
}

// Those of kernels come behind those of the host, and only once: after a reset no queue has their
// numbers, so that a late doorbell is of no queue.
void drive::make_queues() {
  std::uint32_t const granted =
      host_pairs_ == 0 ? share_pairs() : plane_.request_queues(options_.queue_pairs);
  for (std::uint32_t id = 1; id <= std::min(host_pairs_, granted); ++id) {
    auto const& pair = plane_.create_queue_pair(static_cast<std::uint16_t>(id), depth());
    io_queue::shape const shape{std::min(depth() - 1, most_slots), piece_bytes_, options_.nsid};
    queues_.push_back(std::make_unique<io_queue>(plane_, pair, shape));
  }
}

// Returns how many the controller grants. If those are too few for all, kernels get half of them,
// or more if their channels need more.
std::uint32_t drive::share_pairs() {
  bool const shares = options_.channels != 0;
  std::uint32_t const needed = shares ? pairs_for(options_.channels, depth()) : 0;
  std::uint32_t const wanted = shares ? std::max(needed, options_.device_queue_pairs) : 0;
  std::uint32_t granted =
      plane_.request_queues(std::min(options_.queue_pairs + wanted, most_queues));
  std::uint32_t const theirs = std::max(needed, std::min(wanted, granted / 2));
  bool const enough = shares && granted > theirs;
  host_pairs_ = std::min(options_.queue_pairs, enough ? granted - theirs : granted);
  if (!enough || make_device_queues(granted)) return granted;
  granted = plane_.request_queues(options_.queue_pairs);
  host_pairs_ = std::min(options_.queue_pairs, granted);
  return granted;
}

// The host's queues work without them. After an error nobody knows which of them the controller
// has, so it begins anew.
bool drive::make_device_queues(std::uint32_t granted) {
  try {
    for (std::uint32_t id = host_pairs_ + 1; id <= granted; ++id)
      device_pairs_.push_back(plane_.create_queue_pair(static_cast<std::uint16_t>(id), depth(),
                                                       options_.device_memory));
    return true;
  } catch (std::exception const& e) {
    why_no_device_pairs_ = e.what();
  }
  device_pairs_.clear();
  plane_.bring_up();
  plane_.free_retired();
  return false;
}

// Threads that see the controller broken wait here for the one that resets it.
int drive::enter(std::chrono::milliseconds silence) {
  for (;;) {
    resets_.lock_shared();
    if (lost_.load(std::memory_order_relaxed)) break;
    if (auto const sent = oldest_given_up(); sent && io_clock::now() - *sent >= silence)
      mark_broken();
    if (!is_broken()) return 0;
    resets_.unlock_shared();
    if (int const error = reset(); error != 0) return error;
  }
  resets_.unlock_shared();
  return -EIO;
}

void drive::leave() { resets_.unlock_shared(); }

int drive::reset() {
  std::unique_lock const alone{resets_};
  if (lost_.load(std::memory_order_relaxed)) return -EIO;
  if (!is_broken()) return 0;  // another thread was faster
  resetting_.store(true, std::memory_order_relaxed);
  int error = -EIO;
  try {
    error = reset_alone();
  } catch (std::bad_alloc const&) {  // the next command tries again
  }
  resetting_.store(false, std::memory_order_relaxed);
  return error;
}

// With the lock no thread has a slot. A controller that stopped accesses no memory, so queues and
// pieces may be freed, those of commands that were given up, too. A reset that finds the controller
// late ends with an error, and the next one goes on with it.
int drive::reset_alone() {
  if (!plane_.is_late()) {
    add(counters_.resets);
    if (before_reset_) before_reset_();
    before_reset_ = nullptr;
  }
  bool const stopped = plane_.stop();
  if (plane_.is_late()) return -EIO;
  for (auto const& queue : queues_) ended_ += queue->counts();
  stops_.fetch_add(1, std::memory_order_release);  // pairs with see_stops()
  if (stopped_) stopped_();
  stopped_ = nullptr;
  reset_needed_ = nullptr;
  if (!stopped) {
    for (auto const& queue : queues_) queue->leak();
    lost_.store(true, std::memory_order_relaxed);
  }
  queues_.clear();
  plane_.free_retired();
  if (!stopped) return -EIO;
  try {
    plane_.bring_up();
    make_queues();
  } catch (std::exception const&) {  // the next command tries again
    return -EIO;
  }
  broken_since_.store(0, std::memory_order_relaxed);
  return 0;
}

bool drive::look_after_kernels() {
  {
    std::shared_lock const lock{resets_, std::try_to_lock};
    if (!lock) return true;  // a reset is under way
    if (!stopped_) return false;
    if (is_up() && !plane_.is_late() && !reset_needed_()) return true;
    mark_broken();
  }
  static_cast<void>(reset());
  return true;  // the next look says otherwise, unless the controller is late
}

queue_counts drive::counts() const {
  std::shared_lock const lock{resets_};
  queue_counts sum = ended_;
  for (auto const& queue : queues_) sum += queue->counts();
  return sum;
}

bool drive::try_slot(ticket& out) {
  std::uint32_t const first = turn_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    auto& queue = *queues_[(first + i) % queues_.size()];
    if (auto const slot = queue.try_slot()) {
      out = {.queue = &queue, .slot = *slot};
      return true;
    }
  }
  return false;
}

void drive::send(ticket& t, nvme::direction to, nvme::block_range range) {
  t.to = to;
  t.range = range;
  t.tries = 0;
  send_again(t);
}

void drive::send_flush(ticket& t) {
  t.to = nvme::direction::write;
  t.flushes = true;
  t.tries = 0;
  add(counters_.flushes);
  send_again(t);
}

void drive::send_again(ticket& t) {
  add(counters_.commands);
  if (t.tries == 0) t.sent = io_clock::now();
  ++t.tries;
  if (t.flushes) return t.queue->send_flush(t.slot);
  t.queue->send_transfer(t.slot,
                         t.to == nvme::direction::read ? nvme::opcode::read : nvme::opcode::write,
                         t.range, t.range.blocks * identity_.lba_bytes);
}

// Registers are looked at, not the control plane: several threads do at once.
bool drive::is_up() {
  std::uint32_t const state = link_->registers().load(nvme::reg::csts);
  return state != nvme::reg::gone && (state & nvme::reg::csts_fatal) == 0 &&
         (state & nvme::reg::csts_ready) != 0;
}

// The thread that finds it broken first says since when.
void drive::mark_broken() {
  io_clock::rep none = 0;
  broken_since_.compare_exchange_strong(none, io_clock::now().time_since_epoch().count(),
                                        std::memory_order_relaxed);
}

// A flush may take a minute. Threads that want a reset meanwhile wait for it.
bool drive::is_over(io_clock::time_point begin, std::chrono::milliseconds longest) const {
  auto const now = io_clock::now();
  if (now > begin + longest) return true;
  auto const since = broken_since_.load(std::memory_order_relaxed);
  io_clock::time_point const broken{io_clock::duration{since}};
  return since != 0 && now > std::max(begin, broken) + std::min(longest, options_.timeout);
}

std::optional<io_clock::time_point> drive::oldest_given_up() const {
  std::optional<io_clock::time_point> oldest;
  for (auto const& queue : queues_)
    if (auto const sent = queue->oldest_given_up())
      oldest = std::min(*sent, oldest.value_or(*sent));
  return oldest;
}

int drive::answer(ticket& t, nvme::cqe const& entry, bool& again) {
  counters_.waited(nanoseconds_since(t.sent));
  std::uint16_t const code = nvme::status_of(entry);
  if (code == nvme::status::success) {
    std::uint64_t const bytes = t.flushes ? 0 : std::uint64_t{t.range.blocks} * lba_bytes();
    add(t.to == nvme::direction::read ? counters_.bytes_read : counters_.bytes_written, bytes);
    return 0;
  }
  counters_.failed(code);
  if (nvme::own_fault(code)) add(counters_.own_faults);
  again = t.tries <= nvme::most_retries && nvme::worth_retry(code, !nvme::may_retry(entry));
  return nvme::error_of(code, t.to);
}

// An answer that has come counts, however late it is looked at.
int drive::wait(ticket& t, patience const& with) {
  constexpr unsigned looks = 64;  // at the queue, for one at the registers, which may be far away
  daemon::idle_policy idle;
  bool late = false;
  for (unsigned round = 1;; ++round) {
    auto entry = t.queue->poll(t.slot);
    if (!entry) {
      auto const rest = idle.next();
      if (rest.count() > 0) daemon::idle_policy::sleep(rest);
      if (rest.count() == 0 && round % looks != 0) continue;
      bool const up = is_up();
      late = is_over(t.sent, with.longest);
      if (up && !late) continue;
      entry = t.queue->give_up(t.slot, t.sent);
      if (!entry) return no_answer(t, up, with.silence);
    }
    bool again = false;
    int const error = answer(t, *entry, again);
    if (!again || late) return error;
    add(counters_.retries);
    send_again(t);
    idle.reset();
  }
}

int drive::no_answer(ticket& t, bool up, std::chrono::milliseconds silence) {
  t.is_given_up = true;
  if (!up || io_clock::now() - t.sent >= silence) mark_broken();
  if (!up) return -EIO;
  add(counters_.timeouts);
  return -ETIMEDOUT;
}

}  // namespace gpufs::nvme_host
