#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/thread.hpp>

#include <nvme-controller/io_thread.hpp>

#include <utility>

namespace gpufs::nvme_controller {

io_thread::io_thread(std::string const& name, queue_set queues,
                     std::shared_ptr<address_map::reader> reader)
    : queues_{std::move(queues)},
      reader_{std::move(reader)},
      thread_{daemon::start_thread("lower the number of the controller's threads",
                                   [this, name] { run(name); })} {}

io_thread::~io_thread() {
  {
    std::lock_guard const lock{mutex_};
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void io_thread::run(std::string const& name) {
  daemon::set_up_thread(name);
  daemon::idle_policy idle;
  std::unique_lock lock{mutex_};
  while (!stops_) {
    bool const worked = queues_.pass();
    // Who takes memory away from the controller waits for this.
    if (!worked) reader_->let_go();
    if (worked) {
      idle.reset();
    } else if (auto const rest = idle.next(); rest.count() > 0) {
      changed_.wait_for(lock, rest);  // ends early when the queues change
    }
    if (wanted_.load(std::memory_order_relaxed))
      changed_.wait(lock, [this] { return !wanted_.load(std::memory_order_relaxed); });
  }
}

}  // namespace gpufs::nvme_controller
