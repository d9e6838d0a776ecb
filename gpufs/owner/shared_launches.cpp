// Launches that declare nothing, and copies of the program: they use the objects of all address
// spaces of the device.
#include <gpufs/device/launch_observer.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/call.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/owner/shared_launches.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>
#include <signal.h>

namespace gpufs {

namespace {

using shared::address_space;
using shared::call;
using shared::missing_bytes;

/// All address spaces, for launches that declare nothing.
struct living_spaces {
  std::mutex mutex;
  std::vector<std::weak_ptr<address_space>> all;
  ::sigset_t before_fork;  // needs the mutex

  static living_spaces& list() {
    // Static objects may launch when they end.
    static auto& spaces = *[] {
      // A child of fork() finds the mutex free. If there is no memory for that, it may hang.
      static_cast<void>(::pthread_atfork([] { list().begin_fork(); }, [] { list().end_fork(); },
                                         [] { list().end_fork(); }));
      return new living_spaces;
    }();
    return spaces;
  }
  // A handler of a signal would wait for its own thread.
  void begin_fork() {
    auto const before = shared::detail::block_signals();
    mutex.lock();
    before_fork = before;
  }
  void end_fork() {
    auto const before = before_fork;
    mutex.unlock();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  void add(std::shared_ptr<address_space> const& space) {
    std::lock_guard const lock(mutex);
    // The others keep their numbers: exit() may be going through them.
    auto const gone = std::ranges::find_if(all, [](auto const& s) { return s.expired(); });
    if (gone != all.end())
      *gone = space;
    else
      all.push_back(space);
  }
  /// The one that has an address, for calls of this process. Asks those with managed objects, which
  /// takes their mutexes one by one, only if no reservation has it. Needs no memory.
  std::shared_ptr<address_space> at(void const* address) {
    for (bool const reserved : {true, false}) {
      for (std::size_t i = 0; auto space = from(i); ++i)
        if (reserved ? space->has_reserved(address, 1) : space->find(address).bytes != 0)
          return space;
    }
    return nullptr;
  }
  /// The first one of this process from number `i` on, which it sets; null: there are no more.
  /// Needs no memory.
  std::shared_ptr<address_space> from(std::size_t& i) {
    std::lock_guard const lock(mutex);
    for (; i < all.size(); ++i) {
      auto space = all[i].lock();
      if (space != nullptr && !space->in_forked_child()) return space;
    }
    return nullptr;
  }
  /// Those of this process. With a device: those of it.
  std::vector<std::shared_ptr<address_space>> living(std::optional<int> device = std::nullopt) {
    std::lock_guard const lock(mutex);
    std::vector<std::shared_ptr<address_space>> found;
    for (auto const& s : all) {
      auto space = s.lock();
      if (space != nullptr && (!device || space->device() == *device) && !space->in_forked_child())
        found.push_back(std::move(space));
    }
    return found;
  }
};

/// Hands all objects to launches that declare nothing.
class undeclared_launches final : public device::launch_observer {
  struct calls final : under_way {
    explicit calls(stream& on) : on(on) {}
    ~calls() override {
      for (auto& c : all) c.end(on, have_begun);
    }
    shared::no_signals const quiet;  // a handler would wait for a thread that waits for this launch
    stream& on;
    std::vector<call> all;
    bool have_begun = false;  // else nothing is launched
  };

 public:
  std::unique_ptr<under_way> before_launch(stream& on) override {
    // Declared launches, launches within wrapped ones, and our own kernels.
    if (shared::is_declared()) return nullptr;
    std::vector<std::shared_ptr<address_space>> spaces;
    {
      shared::no_signals const quiet;
      // A launch that is captured runs later, and perhaps often.
      if (device_memory::is_captured(on)) return nullptr;
      spaces = living_spaces::list().living(current_device_number());
    }
    if (spaces.empty()) return nullptr;
    if (auto begun = begin(spaces, on, missing_bytes::refuse)) return begun;
    // Bytes of files are read here, so that signals come through meanwhile.
    for (auto const& space : spaces) {
      int const result = space->prepare(std::nullopt);
      if (result != 0)
        throw shared_memory_error(-result, shared::refusal_text(space->why_refused()));
    }
    return begin(spaces, on, missing_bytes::bring);
  }

 private:
  // Null: bytes are missing, and not to be brought.
  static std::unique_ptr<calls> begin(std::vector<std::shared_ptr<address_space>> const& spaces,
                                      stream& on, missing_bytes missing) {
    auto begun = std::make_unique<calls>(on);
    for (auto const& space : spaces) {
      auto& c = begun->all.emplace_back(space);
      int const result = c.begin({.on = on, .missing = missing});
      if (result == -EAGAIN && missing == missing_bytes::refuse) return nullptr;
      if (result != 0) throw shared_memory_error(-result, shared::refusal_text(c.refusal()));
    }
    begun->have_begun = true;
    return begun;
  }
};

}  // namespace

// Registered after the device's library has registered its own end, so it runs before that.
void owner::write_back_at_exit() {
  static int const registered = std::atexit([] {
    for (std::size_t i = 0; auto const space = living_spaces::list().from(i); ++i)
      space->end_with_process();
  });
  static_cast<void>(registered);
}

void owner::watch_launches(std::shared_ptr<shared::address_space> const& space) {
  static undeclared_launches& watch = *new undeclared_launches;
  shared::no_signals const quiet;
  living_spaces::list().add(space);
  // Pairs with the load of each launch.
  device::observer.store(&watch, std::memory_order_release);
}

std::shared_ptr<shared::address_space> owner::space_at(void const* address) noexcept {
  shared::no_signals const quiet;
  return living_spaces::list().at(address);
}

struct owner::shared_copy::implementation {
  explicit implementation(stream& on) : on(on) {}
  ~implementation() {
    for (auto& c : calls) c.end(on, have_begun);
  }
  shared::no_signals const quiet;  // as of launches
  stream& on;
  std::vector<call> calls;
  bool have_begun = false;  // else nothing is copied
};

owner::shared_copy::shared_copy(stream& on, named_bytes to, named_bytes from)
    : implementation_(std::make_unique<implementation>(on)) {
  if (device_memory::is_captured(on)) return;  // it runs later, and perhaps often
  // A source that is the target changes nothing.
  bool const writes = to.first != from.first;
  for (auto& space : living_spaces::list().living(current_device_number())) {
    std::vector<shared::part> parts;
    if (auto const p = space->part_at(from.first, from.bytes, false)) parts.push_back(*p);
    if (auto const p = space->part_at(to.first, to.bytes, true); p && writes) parts.push_back(*p);
    if (parts.empty()) continue;
    auto& c = implementation_->calls.emplace_back(std::move(space), std::move(parts));
    int const result = c.begin({.on = on, .missing = missing_bytes::bring, .is_ordered = false});
    if (result != 0) throw shared_memory_error(-result, shared::refusal_text(c.refusal()));
  }
  implementation_->have_begun = true;
}

owner::shared_copy::~shared_copy() = default;

}  // namespace gpufs
