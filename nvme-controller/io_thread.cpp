#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/thread.hpp>

#include <nvme-controller/io_thread.hpp>

#include <new>
#include <utility>

namespace gpufs::nvme_controller {

io_thread::io_thread(std::string const& name, queue_set queues, thread_tools tools, ender end)
    : queues_{std::move(queues)},
      tools_{std::move(tools)},
      answers_{[this, end = std::move(end)](kept_reads::command const& of, bool complete) {
        queues_.answer(of.queue, nvme::cid_of(of.entry), end(of, complete));
      }},
      flushed_{[this](kept_flushes::command const& of, std::uint16_t code) {
        queues_.answer(of.queue, of.cid, outcome_of(code));
      }},
      thread_{daemon::start_thread("lower the number of the controller's threads",
                                   [this, name] { run(name); })} {}

io_thread::~io_thread() {
  wanted_.store(true, std::memory_order_relaxed);
  {
    std::lock_guard const lock{mutex_};
    wanted_.store(false, std::memory_order_relaxed);
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
    bool worked = true;
    try {
      worked = queues_.pass();
      worked |= tools_.reads->collect(answers_);
      worked |= tools_.flushes->collect(flushed_);
    } catch (std::bad_alloc const&) {
      // A command whose answer finds no memory is lost. Its driver resets the controller then.
    }
    // A thread that takes memory away from the controller waits for this.
    if (!worked) tools_.reader->let_go();
    if (worked) {
      idle.reset();
    } else if (tools_.reads->count() > 0) {
      std::this_thread::yield();
    } else if (auto const rest = idle.next(); rest.count() > 0) {
      changed_.wait_for(lock, rest);  // ends early when the queues change
    }
    if (wanted_.load(std::memory_order_relaxed))
      changed_.wait(lock, [this] { return !wanted_.load(std::memory_order_relaxed); });
  }
}

void io_thread::finish_kept() {
  while (tools_.flushes->count() > 0) {
    try {
      tools_.flushes->finish(flushed_);
    } catch (std::bad_alloc const&) {  // as below
    }
  }
  while (tools_.reads->count() > 0) {
    try {
      tools_.reads->finish(answers_);
    } catch (std::bad_alloc const&) {  // that command is lost, and there are fewer now
    }
  }
}

}  // namespace gpufs::nvme_controller
