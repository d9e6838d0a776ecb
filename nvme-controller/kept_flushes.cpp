#include <host-daemon/base/thread.hpp>

#include <nvme-controller/kept_flushes.hpp>

#include <system_error>

namespace gpufs::nvme_controller {

kept_flushes::~kept_flushes() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard const lock{mutex_};
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool kept_flushes::start(block_namespace& blocks, command const& of) {
  if (refused_) return false;
  if (!thread_.joinable()) {
    try {
      thread_ =
          daemon::start_thread("lower the number of the controller's threads", [this] { run(); });
    } catch (std::system_error const&) {
      refused_ = true;
      return false;
    }
  }
  {
    std::lock_guard const lock{mutex_};
    waiting_.push_back({&blocks, of});
  }
  ++count_;
  changed_.notify_all();
  return true;
}

// No memory is asked for here: an end is not lost.
void kept_flushes::run() {
  daemon::set_up_thread("nvme-flush");
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
    if (stops_) return;
    job& first = waiting_.front();
    lock.unlock();
    first.status = first.blocks->flush();
    lock.lock();
    ended_.splice(ended_.end(), waiting_, waiting_.begin());
    changed_.notify_all();
  }
}

// One by one: if the receiver finds no memory for an answer, those behind it stay.
bool kept_flushes::collect(receiver const& to) {
  bool any = false;
  while (count_ > 0) {
    std::list<job> first;
    {
      std::lock_guard const lock{mutex_};
      if (ended_.empty()) break;
      first.splice(first.end(), ended_, ended_.begin());
    }
    any = true;
    --count_;
    to(first.front().of, first.front().status);
  }
  return any;
}

void kept_flushes::finish(receiver const& to) {
  while (count_ > 0) {
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [this] { return !ended_.empty(); });
    }
    collect(to);
  }
}

}  // namespace gpufs::nvme_controller
