// Streams, events and launches of the emulated device. Each stream is an OS thread that runs its
// tasks in order.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/executor.hpp>
#include <gpufs/device/emulated/launches.hpp>
#include <gpufs/device/launch_check.hpp>
#include <gpufs/device/launch_observer.hpp>
#include <gpufs/device/memory.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreReadsBegin(char const* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(char const* file, int line);
#endif

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

namespace emulated {

namespace {

// A copy engine may read memory that the program writes meanwhile, if the copied bytes are not
// used.
void copy_by_engine(void* to, void const* from, std::uint64_t bytes) {
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  std::memcpy(to, from, bytes);
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}

}  // namespace

}  // namespace emulated

namespace {

// All streams whose threads run, for synchronize().
struct stream_list {
  struct entry {
    stream::implementation const* which;
    std::weak_ptr<stream::implementation> live;  // expires before the last tasks have run
    pid_t process;                               // a child of fork() does not have the threads
  };

  std::mutex mutex;
  std::condition_variable left;
  std::vector<entry> all;
};

stream_list& streams() {
  static stream_list list;
  return list;
}

struct running_streams {
  std::vector<std::shared_ptr<stream::implementation>> live;
  std::vector<stream::implementation const*> ending;  // only to compare
};

running_streams find_streams() {
  stream_list& list = streams();
  std::lock_guard const lock(list.mutex);
  running_streams found;
  for (auto const& s : list.all) {
    if (s.process != ::getpid()) continue;
    if (auto strong = s.live.lock())
      found.live.push_back(std::move(strong));
    else
      found.ending.push_back(s.which);
  }
  return found;
}

// Waits until these streams have run their tasks.
void wait_for_end(std::vector<stream::implementation const*> const& ending) {
  stream_list& list = streams();
  std::unique_lock lock(list.mutex);
  list.left.wait(lock, [&] {
    return std::none_of(list.all.begin(), list.all.end(), [&](auto const& s) {
      return s.live.expired() && std::find(ending.begin(), ending.end(), s.which) != ending.end();
    });
  });
}

}  // namespace

void stream::implementation::enter_list(std::shared_ptr<implementation> const& self) {
  stream_list& list = streams();
  std::lock_guard const lock(list.mutex);
  list.all.push_back({this, self, ::getpid()});
}

void stream::implementation::leave_list() noexcept {
  stream_list& list = streams();
  {
    std::lock_guard const lock(list.mutex);
    std::erase_if(list.all, [this](auto const& s) { return s.which == this; });
  }
  list.left.notify_all();
}

stream::stream() : implementation_(new implementation, emulated::delete_at_home<implementation>{}) {
  implementation_->enter_list(implementation_);
}
stream::~stream() = default;
stream::stream(stream&&) noexcept = default;
stream& stream::operator=(stream&&) noexcept = default;

void stream::synchronize() {
  std::string const failure = implementation_->drain();
  if (!failure.empty()) throw device_error(failure);
}

bool stream::done() const {
  std::lock_guard const lock(implementation_->mutex);
  return implementation_->tasks.empty() && !implementation_->running;
}

stream& this_thread_stream() {
  thread_local stream own;
  return own;
}

void synchronize() {
  auto const running = find_streams();
  std::string first;
  for (auto const& s : running.live) {
    std::string failure = s->drain();
    if (first.empty()) first = std::move(failure);
  }
  wait_for_end(running.ending);
  if (!first.empty()) throw device_error(first);
}

// A recorded point of an event. Recording again makes a new point.
struct event::implementation {
  struct point {
    std::mutex mutex;
    std::condition_variable reached;
    std::optional<std::chrono::steady_clock::time_point> at;
  };
  std::shared_ptr<point> last;
};

void emulated::wait_for_launches() {
  auto const running = find_streams();
  auto const reached = std::make_shared<std::latch>(std::ptrdiff_t(running.live.size()));
  for (auto const& s : running.live) {
    s->enqueue({[reached] {
                  reached->count_down();
                  return std::string();
                },
                false});
  }
  reached->wait();
  wait_for_end(running.ending);
}

event::event() : implementation_(std::make_shared<implementation>()) {}
event::~event() = default;
event::event(event&&) noexcept = default;
event& event::operator=(event&&) noexcept = default;

void event::record(stream& on) {
  auto const point = std::make_shared<implementation::point>();
  implementation_->last = point;
  on.access().enqueue({[point] {
                         std::lock_guard const lock(point->mutex);
                         point->at = std::chrono::steady_clock::now();
                         point->reached.notify_all();
                         return std::string();
                       },
                       false});
}

void event::synchronize() const {
  auto const point = implementation_->last;
  if (point == nullptr) return;
  std::unique_lock lock(point->mutex);
  point->reached.wait(lock, [&] { return point->at.has_value(); });
}

double event::seconds_between(event const& from, event const& to) {
  std::chrono::steady_clock::time_point at[2];
  event const* const both[2] = {&from, &to};
  for (int i = 0; i < 2; ++i) {
    auto const point = both[i]->implementation_->last;
    if (point == nullptr) throw device_error("event::seconds_between: an event was never recorded");
    std::lock_guard const lock(point->mutex);
    if (!point->at)
      throw device_error(
          "event::seconds_between: an event has not been reached; synchronize() with it first");
    at[i] = *point->at;
  }
  return std::chrono::duration<double>(at[1] - at[0]).count();
}

void device_memory::copy_to_device(stream& on, std::span<pinned_copy const> pieces) {
  on.access().enqueue({[all = std::vector<pinned_copy>(pieces.begin(), pieces.end())] {
                         for (auto const& p : all)
                           emulated::copy_by_engine(p.device, p.pinned, p.bytes);
                         return std::string();
                       },
                       true});
}

void device_memory::copy_to_pinned(stream& on, void* pinned, void const* device,
                                   std::uint64_t bytes) {
  on.access().enqueue({[=] {
                         emulated::copy_by_engine(pinned, device, bytes);
                         return std::string();
                       },
                       true});
}

namespace emulated {

void when_done(stream& on, std::function<void()> then) {
  on.access().enqueue({[then = std::move(then)] {
                         then();
                         return std::string();
                       },
                       false});
}

void enqueue_launch(launch_options const& options, std::function<void()> thread_body) {
  detail::check_launch(options, shared_bytes_per_block);
  auto const call = std::make_shared<kernel_launch>();
  call->thread_body = std::move(thread_body);
  call->grid = options.grid;
  call->block = options.block;
  call->dynamic_shared_bytes = options.dynamic_shared_bytes;
  number_launch(*call);
  stream& on = options.on != nullptr ? *options.on : this_thread_stream();
  block_workers& workers = *on.access().workers;
  auto const observed = device::observe_launch(on);
  on.access().enqueue({[call, &workers]() -> std::string {
                         try {
                           workers.run(*call);
                         } catch (std::exception const& error) {
                           return std::string("launch: no OS threads to run blocks on: ") +
                                  error.what();
                         }
                         return call->failure;
                       },
                       true});
}

}  // namespace emulated

}  // namespace gpufs
