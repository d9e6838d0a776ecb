// Streams of the emulated device, waits for all of them, and launches.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/executor.hpp>
#include <gpufs/device/emulated/launches.hpp>
#include <gpufs/device/emulated/stream_implementation.hpp>
#include <gpufs/device/launch_check.hpp>
#include <gpufs/device/launch_observer.hpp>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace gpufs {

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
  // Never destroyed: static objects of the program may have streams that end later.
  static stream_list& list = *new stream_list;
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
