// A stream of the emulated device: an OS thread that runs its tasks in order.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device/emulated/executor.hpp>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gpufs {

struct stream::implementation {
  implementation() try : workers(emulated::block_workers::shared()), thread([this] { work(); }) {
  } catch (std::system_error const& e) {
    throw device_error(std::string("no OS thread for a stream: ") + e.what());
  }

  ~implementation() {
    {
      std::lock_guard const lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
    leave_list();
    if (!failure.empty())
      std::fprintf(stderr, "gpufs: a failure that no synchronize() has reported: %s\n",
                   failure.c_str());
  }

  // A task returns the reason of its failure, or an empty string. `skippable`: do not run it after
  // a failure.
  struct task {
    std::function<std::string()> run;
    bool skippable;
  };

  void enqueue(task t) {
    {
      std::lock_guard const lock(mutex);
      tasks.push_back(std::move(t));
    }
    changed.notify_all();
  }

  // Waits for the work so far. Returns the failure, if any, and clears it.
  std::string drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return tasks.empty() && !running; });
    return std::exchange(failure, std::string());
  }

  void enter_list(std::shared_ptr<implementation> const& self);
  void leave_list() noexcept;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (tasks.empty()) return;
      {
        task const next = std::move(tasks.front());
        tasks.pop_front();
        if (next.skippable && !failure.empty()) continue;
        running = true;
        lock.unlock();
        std::string why = next.run();
        lock.lock();
        if (failure.empty()) failure = std::move(why);
      }
      running = false;
      changed.notify_all();
    }
  }

  std::shared_ptr<emulated::block_workers> workers;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<task> tasks;
  std::string failure;
  bool running = false;
  bool stopping = false;
  std::thread thread;  // last, since it uses all of the above
};

}  // namespace gpufs
