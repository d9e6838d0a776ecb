#include <host-daemon/base/thread.hpp>

#include <nvme-controller/admin_commands.hpp>
#include <nvme-controller/controller.hpp>
#include <nvme-controller/identity.hpp>
#include <nvme-controller/io_thread.hpp>
#include <nvme-controller/registers.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>

namespace gpufs::nvme_controller {

namespace reg = nvme::reg;

namespace {

constexpr std::chrono::microseconds look_interval{200};  // at registers and admin doorbell
constexpr std::uint32_t ready_halves = 4;                // seconds / 2 until CSTS.RDY follows
constexpr unsigned most_threads = 64;

controller_options checked(controller_options options) {
  if (options.threads == 0 || options.threads > most_threads)
    throw std::invalid_argument{"nvme: " + std::to_string(options.threads) +
                                " threads, 1 to 64 are possible"};
  if (options.entries < 2 || options.entries > most_entries)
    throw std::invalid_argument{"nvme: queues of " + std::to_string(options.entries) +
                                " entries, 2 to 8192 are possible"};
  if (options.namespaces.size() > most_namespaces)
    throw std::invalid_argument{"nvme: more than 256 namespaces"};
  if (options.faults == nullptr) throw std::invalid_argument{"nvme: no plan of faults"};
  return options;
}

}  // namespace

std::size_t register_bytes() {
  return reg::doorbells + std::size_t{2} * (most_queues + 1) * stride;
}

class controller::parts {
 public:
  parts(std::byte* registers, controller_options const& given)
      : options_{checked(given)},
        registers_{reinterpret_cast<std::uint32_t*>(registers)},
        io_{options_.namespaces, counters_, options_.model.get()},
        admin_{io_, threads_, memory_, options_.entries},
        admin_queues_{registers_, *options_.faults, counters_,
                      [this](std::uint16_t, nvme::sqe const& e) { return admin_.execute(e); }} {
    put_capabilities();
    for (unsigned i = 0; i < options_.threads; ++i)
      threads_.push_back(start_io("nvme-" + std::to_string(i)));
    thread_ =
        daemon::start_thread("lower the number of the controller's threads", [this] { run(); });
  }
  ~parts() {
    {
      std::lock_guard const lock{mutex_};
      stops_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void unmap(std::uint64_t bus) {
    {
      std::lock_guard const lock{mutex_};
      mapped_range const range = memory_.at(bus);
      auto const drop = [&](queue_set& queues) {
        queues.drop_queues_in(range.memory, range.bytes);
      };
      drop(admin_queues_);
      for (auto const& thread : threads_) thread->between_passes(drop);
    }
    memory_.remove(bus);
  }

  address_map& memory() { return memory_; }
  controller_counters const& counters() const { return counters_; }
  [[nodiscard]] bool is_stopping() const { return stopping_.load(std::memory_order_acquire); }

 private:
  std::unique_ptr<io_thread> start_io(std::string const& name) {
    thread_tools const tools{std::make_shared<address_map::reader>(memory_),
                             std::make_shared<kept_reads>(), std::make_shared<kept_flushes>()};
    // A plan of faults says what becomes of a command when it is taken, so none is kept.
    fault_plan const& faults = *options_.faults;
    bool const keeps = typeid(faults) == typeid(fault_plan);
    queue_set queues{registers_, *options_.faults, counters_,
                     [this, tools, keeps](std::uint16_t queue, nvme::sqe const& e) {
                       return io_.execute(queue, e, tools, keeps);
                     }};
    auto const end = [this, tools](kept_reads::command const& of, bool complete) {
      return io_.end(of, complete, tools);
    };
    return std::make_unique<io_thread>(name, std::move(queues), tools, end);
  }

  void run() {
    daemon::set_up_thread("nvme-admin");
    std::unique_lock lock{mutex_};
    while (!stops_) {
      try {
        look();
      } catch (std::bad_alloc const&) {
        fail();
      }
      changed_.wait_for(lock, look_interval);
    }
  }

  void look() {
    if (left_) return;
    if (options_.faults->gone()) return leave();
    std::uint32_t const cc = registers_.load(reg::cc);
    bool const wants = (cc & reg::cc_enable) != 0;
    if (wants == enabled_ || options_.faults->keeps_ready()) {
      // Not earlier: a driver that has disabled a controller that failed waits for this look.
      // Pairs with is_stopping(): CSTS has been stored.
      stopping_.store(false, std::memory_order_release);
    } else if (wants) {
      enable(cc);
    } else {
      disable();
    }
    if (!enabled_) return;
    if (options_.faults->fails()) fail();
    if (failed_) return;
    while (admin_queues_.pass()) {
    }
    if ((cc & reg::cc_shutdown_mask) != 0 && !shut_down_) {
      stopping_.store(true, std::memory_order_relaxed);
      static_cast<void>(io_.flush_all());
      shut_down_ = true;
      registers_.store(reg::csts, reg::csts_ready | reg::csts_shutdown_done);
      stopping_.store(false, std::memory_order_release);  // pairs with is_stopping()
    }
  }

  void put_capabilities() {
    std::uint64_t const cap =
        nvme::make_capabilities(options_.entries, ready_halves, stride_log2).word;
    registers_.store(reg::cap, static_cast<std::uint32_t>(cap));
    registers_.store(reg::cap + 4, static_cast<std::uint32_t>(cap >> 32));
    registers_.store(reg::vs, version);
  }

  void drop_queues() {
    stopping_.store(true, std::memory_order_relaxed);
    admin_queues_.clear();
    for (auto const& thread : threads_)
      thread->between_passes([](queue_set& queues) { queues.clear(); });
    admin_.reset();
  }

  /// Afterwards no thread accesses the driver's memory, until the controller is enabled again.
  void disable() {
    drop_queues();
    enabled_ = failed_ = shut_down_ = false;
    count(counters_.resets);
    registers_.store(reg::csts, 0);
  }

  void enable(std::uint32_t cc) {
    enabled_ = true;
    std::uint32_t const sizes = registers_.load(reg::aqa);
    std::uint32_t const sq = (sizes & 0xfff) + 1, cq = (sizes >> 16 & 0xfff) + 1;
    std::uint64_t const sq_bus = registers_.load_two(reg::asq);
    std::uint64_t const cq_bus = registers_.load_two(reg::acq);
    auto const table = memory_.snapshot();
    std::byte* const sq_memory = find_memory(*table, sq_bus, sq * sizeof(nvme::sqe));
    std::byte* const cq_memory = find_memory(*table, cq_bus, cq * sizeof(nvme::cqe));
    bool const good = (cc & ~reg::cc_shutdown_mask) == (reg::cc_enable | reg::cc_entry_sizes) &&
                      sq >= 2 && cq >= 2 && sq_bus % nvme::page_bytes == 0 &&
                      cq_bus % nvme::page_bytes == 0 && sq_memory != nullptr &&
                      cq_memory != nullptr;
    if (!good) return fail();
    admin_queues_.add_cq({0, cq, cq_memory});
    admin_queues_.add_sq({0, sq, sq_memory}, 0);
    registers_.store(reg::csts, reg::csts_ready);
  }

  void fail() {
    if (failed_) return;
    failed_ = true;
    drop_queues();
    // Ready, too: so the driver sees when the reset is done.
    registers_.store(reg::csts, reg::csts_ready | reg::csts_fatal);
  }

  void leave() {
    left_ = true;
    drop_queues();
    for (std::uint32_t at = 0; at < reg::doorbells; at += 4) registers_.store(at, reg::gone);
    stopping_.store(false, std::memory_order_release);  // pairs with is_stopping()
  }

  controller_options options_;
  register_view registers_;
  address_map memory_;
  controller_counters counters_;
  io_commands io_;
  io_threads threads_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  admin_commands admin_;
  queue_set admin_queues_;
  bool stops_ = false;
  bool enabled_ = false;
  bool failed_ = false;
  bool shut_down_ = false;
  bool left_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

controller::controller(std::byte* registers, controller_options const& options)
    : parts_{std::make_unique<parts>(registers, options)} {}
controller::~controller() = default;

void controller::map(mapped_range const& range) { parts_->memory().add(range); }
void controller::unmap(std::uint64_t bus) { parts_->unmap(bus); }
bool controller::is_stopping() const { return parts_->is_stopping(); }
controller_counters const& controller::counters() const { return parts_->counters(); }

}  // namespace gpufs::nvme_controller
