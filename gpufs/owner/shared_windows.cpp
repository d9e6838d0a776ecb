// Loops over windows of objects: a thread reads ahead and another one writes back, while kernels
// use the window between them.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/at_end.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/mapping/window_plan.hpp>
#include <gpufs/mapping_windows.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gpufs {

namespace detail {

namespace {

[[noreturn]] void refuse(std::string const& what) {
  throw shared_memory_error(EINVAL, "shared memory: for_each_window: " + what);
}

/// Work in a thread of its own, or in this one if the system gives none.
class side_work {
 public:
  side_work() = default;
  ~side_work() { wait(); }
  side_work(side_work const&) = delete;
  side_work& operator=(side_work const&) = delete;

  template <class Work>
  void start(int device, Work work) {
    wait();
    shared::no_signals const inherited;
    try {
      thread_ = std::thread([=] {
        try {
          device_memory::enter_library_thread(device);
          work();
        } catch (device_error const&) {  // the next launch says so
        }
      });
    } catch (std::system_error const&) {
      work();
    }
  }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace

class window_loop {
 public:
  window_loop(shared_memory& memory, std::vector<windowed_object> const& objects,
              window_options const& options, stream& on)
      : space_(*memory.space_), objects_(objects), on_(on) {
    if (objects.empty()) refuse("no object is given");
    for (auto const& o : objects) check(o, memory);
    count_ = objects[0].object->size() / objects[0].item_bytes;
    auto const arrays = arrays_in_tiers();
    step_ = options.items != 0 ? options.items : shared::items_of_window(arrays, space_.budgets());
    // Perhaps a window fits where three do not. Its launch tells.
    step_ = std::clamp<std::uint64_t>(step_, 1, count_);
    if (options.items == 0 && step_ == 1) step_ = least_step(arrays);
  }

  int run(std::function<void(memory_window const&)> const& body) {
    {
      side_work ahead, behind;
      for (std::uint64_t first = 0; first < count_ && error() == 0; first += step_) {
        ahead.wait();
        use(first, body);
        if (first + step_ < count_)
          ahead.start(space_.device(), [this, next = first + step_] { bring(next); });
        if (first >= step_)
          behind.start(space_.device(), [this, last = first - step_] { write_back(last); });
      }
    }
    shared::wait_for(on_);
    // What windows share with their neighbours, and the last one.
    for (auto const& o : objects_) {
      if (o.use == access::read) continue;
      note(space_.write_back(*o.object->object_, {0, o.object->size()}, false));
    }
    return error();
  }

 private:
  void check(windowed_object const& o, shared_memory const& memory) const {
    if (o.object == nullptr || o.object->size() == 0) refuse("a mapping is empty");
    if (o.object->space_ != memory.space_) refuse("an object is of another shared_memory");
    auto const size = o.object->size();
    if (o.item_bytes == 0 || size % o.item_bytes != 0)
      refuse(fmt::format("item_bytes={}: an object has {} bytes, which is no multiple",
                         o.item_bytes, size));
    auto const& first = objects_[0];
    if (size / o.item_bytes != first.object->size() / first.item_bytes)
      refuse(fmt::format("an object has {} items and another one {}; map as many of each",
                         first.object->size() / first.item_bytes, size / o.item_bytes));
  }

  // Managed memory takes nothing of the budgets. But if there is nothing else, they say how large a
  // window should be.
  [[nodiscard]] std::vector<shared::chunked_items> arrays_in_tiers() const {
    std::vector<shared::chunked_items> all, others;
    for (auto const& o : objects_) {
      all.push_back({o.item_bytes, o.object->object_->chunk_bytes});
      if (!o.object->object_->is_managed) others.push_back(all.back());
    }
    return others.empty() ? all : others;
  }

  // About a chunk of the largest items.
  [[nodiscard]] std::uint64_t least_step(std::vector<shared::chunked_items> const& arrays) const {
    std::uint64_t least = count_;
    for (auto const& a : arrays)
      least = std::min(least, std::max<std::uint64_t>(a.chunk_bytes / a.item_bytes, 1));
    return least;
  }

  [[nodiscard]] shared::byte_run bytes_of(windowed_object const& o, std::uint64_t first) const {
    return {first * o.item_bytes, std::min(first + step_, count_) * o.item_bytes};
  }

  void use(std::uint64_t first, std::function<void(memory_window const&)> const& body) {
    shared_call call(&on_);
    for (auto const& o : objects_) {
      auto const bytes = bytes_of(o, first);
      auto const n = bytes.end - bytes.first;
      if (o.use == access::read)
        call.reads(*o.object, bytes.first, n);
      else
        call.reads_writes(*o.object, bytes.first, n);
    }
    release_or_throw(call);
    shared::declared_launches const declared;
    shared::at_end const launched{[&] { call.launched(); }};
    body(memory_window(objects_, first, std::min(step_, count_ - first), on_));
  }

  // Errors come again where the window is used.
  void bring(std::uint64_t first) const noexcept try {
    std::vector<shared::part> parts;
    for (auto const& o : objects_) {
      auto const bytes = bytes_of(o, first);
      auto const& of = *o.object->object_;
      parts.push_back({of.offset, of.id, of.blocks_of(bytes.first, bytes.end - bytes.first),
                       o.use != access::read});
    }
    static_cast<void>(space_.prepare(parts));
  } catch (std::exception const&) {  // no memory, or no device
  }

  // Whole blocks, so that it does not wait for the next window.
  void write_back(std::uint64_t first) noexcept try {
    for (auto const& o : objects_) {
      if (o.use == access::read) continue;
      auto& of = *o.object->object_;
      auto const bytes = bytes_of(o, first);
      auto const end = bytes.end / of.block_bytes * of.block_bytes;
      if (bytes.first < end) note(space_.write_back(of, {bytes.first, end}, false));
    }
  } catch (std::exception const&) {  // it is tried again at the end
  }

  // Relaxed: threads are joined before the last look.
  void note(int error) {
    int none = 0;
    if (error != 0) error_.compare_exchange_strong(none, error, std::memory_order_relaxed);
  }
  [[nodiscard]] int error() const { return error_.load(std::memory_order_relaxed); }

  shared::address_space& space_;
  std::vector<windowed_object> const& objects_;
  stream& on_;
  std::uint64_t count_ = 0, step_ = 0;
  std::atomic<int> error_{0};
};

}  // namespace detail

int for_each_window(shared_memory& memory, std::vector<windowed_object> const& objects,
                    std::function<void(memory_window const&)> const& body,
                    window_options const& options, stream* on) {
  stream& chosen = [&]() -> stream& {
    shared::no_signals const quiet;
    return on != nullptr ? *on : this_thread_stream();
  }();
  return detail::window_loop(memory, objects, options, chosen).run(body);
}

}  // namespace gpufs
