// Launches that declare what they use of shared memory.
#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/call.hpp>
#include <gpufs/mapping/launch_profile.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/owner/shared_launches.hpp>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace gpufs {

using shared::call;
using shared::missing_bytes;

namespace {

// Nothing is launched.
void cancel(std::vector<std::unique_ptr<call>> const& parts) noexcept {
  for (auto const& c : parts) c->cancel();
}

}  // namespace

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
    parts_.push_back(std::make_unique<call>(m.space_, std::vector<shared::part>{}));
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

shared_call& shared_call::profile(std::string name) {
  if (!shared::is_launch_name(name)) wrong_ = -EINVAL;
  name_ = std::move(name);
  return *this;
}

int shared_call::release() {
  if (wrong_ != 0 || released_) return -EINVAL;
  {
    shared::no_signals const quiet;
    // The stream is another device's: no mark of this one could lie behind the launch.
    // A child of fork() has no device: begin() says so.
    auto const is_elsewhere = [](auto const& c) {
      return !c->space()->in_forked_child() && c->space()->device() != current_device_number();
    };
    if (std::ranges::any_of(parts_, is_elsewhere)) return -EINVAL;
    if (device_memory::is_captured(*on_)) return -EBUSY;
  }
  released_ = true;
  if (name_.empty()) return begin();
  for (auto const& c : parts_) c->expect(name_);
  int const result = begin();
  for (auto const& c : parts_) is_watched_ = (result == 0 && c->watch()) || is_watched_;
  return result;
}

int shared_call::begin() {
  if (int const result = begin_all(missing_bytes::refuse); result != -EAGAIN) return result;
  cancel(parts_);  // those that began
  // Bytes of files are read here, so that signals come through meanwhile.
  for (auto const& c : parts_) {
    if (int const result = c->prepare(); result != 0) return refused(*c, result);
  }
  return begin_all(missing_bytes::bring);
}

int shared_call::begin_all(missing_bytes missing) {
  shared::no_signals const quiet;
  for (auto const& c : parts_) {
    int const result = c->begin({.on = *on_, .missing = missing});
    if (result == -EAGAIN && missing == missing_bytes::refuse) return result;
    if (result != 0) return refused(*c, result);
  }
  return 0;
}

int shared_call::refused(shared::call const& by, int error) {
  cancel(parts_);  // the other address spaces' parts
  try {
    why_refused_ = by.refusal();
  } catch (std::bad_alloc const&) {
    why_refused_.clear();
  }
  return error;
}

void shared_call::launched() noexcept {
  // In a child of fork() stream and call are the parent's.
  auto const is_parents = [](auto const& c) { return c->space()->in_forked_child(); };
  if (std::exchange(is_watched_, false) && std::ranges::none_of(parts_, is_parents)) {
    shared::wait_for_end(*on_);
    for (auto const& c : parts_) c->keep_touches(name_);
  }
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
        "shared memory: a call declares bytes beyond an object, an empty or a removed mapping, is "
        "launched twice, has a name that is empty, too long or not one line, or uses objects of "
        "another device than the current one; make a shared_call per launch");
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
  if (result != 0) throw shared_memory_error(-result, shared::refusal_text(call.why_refused()));
}

}  // namespace detail

}  // namespace gpufs
