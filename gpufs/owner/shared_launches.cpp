// Launches that use shared memory: declared by a shared_call, or all others.
#include <gpufs/device/launch_observer.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/owner/shared_launches.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpufs {

namespace shared {

/// What a call uses of one address space.
class call {
 public:
  explicit call(std::shared_ptr<address_space> space) : space_(std::move(space)) {}

  [[nodiscard]] address_space const* space() const { return space_.get(); }
  void add(part const& p) { parts_.push_back(p); }

  /// Why it did not begin.
  [[nodiscard]] std::string refusal() const { return space_->why_refused(); }
  /// Bytes of files are read here, so that signals come through meanwhile.
  int prepare_declared() { return space_->prepare(parts_); }
  int begin_declared() { return take(space_->begin(std::move(parts_))); }
  int begin_with_all() { return take(space_->begin(std::nullopt)); }
  void end_behind(stream& on) noexcept {
    if (number_ > 0) space_->end_behind(on, std::exchange(number_, 0));
  }

 private:
  int take(std::int64_t result) {
    number_ = std::max<std::int64_t>(result, 0);
    return result < 0 ? int(result) : 0;
  }

  std::shared_ptr<address_space> space_;
  std::vector<part> parts_;
  std::int64_t number_ = 0;
};

}  // namespace shared

namespace {

using shared::address_space;
using shared::call;

std::string refusal_text(std::string const& why) {
  if (!why.empty()) return "shared memory: " + why;
  return "shared memory: the device failed, or the system has no more mappings (vm.max_map_count)";
}

/// All address spaces, for launches that declare nothing.
struct living_spaces {
  std::mutex mutex;
  std::vector<std::weak_ptr<address_space>> all;

  static living_spaces& list() {
    static auto& spaces = *new living_spaces;  // static objects may launch when they end
    return spaces;
  }
  void add(std::shared_ptr<address_space> const& space) {
    std::lock_guard const lock(mutex);
    std::erase_if(all, [](auto const& s) { return s.expired(); });
    all.push_back(space);
  }
  /// The one that has an address, for calls of this process.
  std::shared_ptr<address_space> at(void const* address) {
    std::lock_guard const lock(mutex);
    auto const wanted = reinterpret_cast<std::uintptr_t>(address);
    for (auto const& s : all) {
      auto space = s.lock();
      if (space == nullptr || space->in_forked_child()) continue;
      if (wanted - reinterpret_cast<std::uintptr_t>(space->base()) < space->reserved())
        return space;
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
      for (auto& c : all) c.end_behind(on);
    }
    shared::no_signals const quiet;  // a handler would wait for a thread that waits for this launch
    stream& on;
    std::vector<call> all;
  };

 public:
  std::unique_ptr<under_way> before_launch(stream& on) override {
    // Declared launches, launches within wrapped ones, and our own kernels.
    if (shared::is_in_library()) return nullptr;
    std::vector<std::shared_ptr<address_space>> spaces;
    {
      shared::no_signals const quiet;
      // A launch that is captured runs later, and perhaps often.
      if (device_memory::is_captured(on)) return nullptr;
      spaces = living_spaces::list().living(current_device_number());
    }
    if (spaces.empty()) return nullptr;
    // Bytes of files are read here, so that signals come through meanwhile.
    for (auto const& space : spaces) {
      int const result = space->prepare(std::nullopt);
      if (result != 0) throw shared_memory_error(-result, refusal_text(space->why_refused()));
    }
    auto begun = std::make_unique<calls>(on);
    for (auto& space : spaces) begun->all.emplace_back(std::move(space));
    for (auto& c : begun->all) {
      int const result = c.begin_with_all();
      if (result != 0) throw shared_memory_error(-result, refusal_text(c.refusal()));
    }
    return begun;
  }
};

}  // namespace

// Registered after the device's library has registered its own end, so it runs before that.
void owner::write_back_at_exit() {
  static int const registered = std::atexit([] {
    for (auto const& space : living_spaces::list().living()) space->end_with_process();
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
    for (auto& c : calls) c.end_behind(on);
  }
  shared::no_signals const quiet;  // as of launches
  stream& on;
  std::vector<call> calls;
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
    auto& c = implementation_->calls.emplace_back(std::move(space));
    for (auto const& p : parts) c.add(p);
    int const result = c.begin_declared();
    if (result != 0) throw shared_memory_error(-result, refusal_text(c.refusal()));
  }
}

owner::shared_copy::~shared_copy() = default;

shared_call::shared_call(stream* on) : on_(on) {
  shared::no_signals const quiet;
  if (on_ == nullptr) on_ = &this_thread_stream();
}

shared_call::~shared_call() { launched(); }

shared_call& shared_call::add(mapping const& m, std::uint64_t first, std::uint64_t bytes,
                              access use) {
  if (m.space_ == nullptr || !owner::lies_in(first, bytes, m.size())) {
    wrong_ = -EINVAL;
    return *this;
  }
  auto found = std::ranges::find(parts_, m.space_.get(), [](auto const& c) { return c->space(); });
  if (found == parts_.end()) {
    parts_.push_back(std::make_unique<call>(m.space_));
    found = std::prev(parts_.end());
  }
  auto const& o = *m.object_;
  (*found)->add({o.offset, o.id, o.blocks_of(first, bytes), use != access::read});
  return *this;
}

shared_call& shared_call::reads(mapping const& m) { return add(m, 0, m.size(), access::read); }
shared_call& shared_call::reads(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  return add(m, first, bytes, access::read);
}
shared_call& shared_call::writes(mapping const& m) { return add(m, 0, m.size(), access::write); }
shared_call& shared_call::writes(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  return add(m, first, bytes, access::write);
}
shared_call& shared_call::reads_writes(mapping const& m) {
  return add(m, 0, m.size(), access::read_write);
}
shared_call& shared_call::reads_writes(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  return add(m, first, bytes, access::read_write);
}

int shared_call::release() {
  if (wrong_ != 0 || released_) return -EINVAL;
  {
    shared::no_signals const quiet;
    if (device_memory::is_captured(*on_)) return -EBUSY;
  }
  released_ = true;
  for (auto const& c : parts_) {
    if (int const result = c->prepare_declared(); result != 0) return refused(*c, result);
  }
  shared::no_signals const quiet;
  for (auto const& c : parts_) {
    if (int const result = c->begin_declared(); result != 0) return refused(*c, result);
  }
  return 0;
}

int shared_call::refused(shared::call const& by, int error) {
  why_refused_ = by.refusal();
  launched();  // the other address spaces' parts
  return error;
}

void shared_call::launched() noexcept {
  for (auto const& c : parts_) c->end_behind(*on_);
}

namespace detail {

declared_launch::declared_launch(shared_call& of)
    : of_(of), quiet_(std::make_unique<shared::no_signals>()) {}
declared_launch::~declared_launch() { of_.launched(); }

void release_or_throw(shared_call& call) {
  int const result = call.release();
  if (result == -EINVAL)
    throw shared_memory_error(
        EINVAL,
        "shared memory: a call declares bytes beyond an object, an empty or a removed mapping, or "
        "is launched twice; make a shared_call per launch");
  if (result == -EBUSY)
    throw shared_memory_error(
        EBUSY,
        "shared memory: the stream is being captured, and a graph may run often; launch there "
        "without a call, and release() one before each launch of the graph");
  if (result == -EACCES)
    throw shared_memory_error(
        EACCES,
        "shared memory: a call writes to an object that was mapped for reading; map it "
        "with access read_write");
  if (result != 0) throw shared_memory_error(-result, refusal_text(call.why_refused()));
}

}  // namespace detail

}  // namespace gpufs
