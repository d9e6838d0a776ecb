
#include <python/src/errors.hpp>
#include <python/src/gil.hpp>
#include <python/src/transfer.hpp>
#include <python/src/transfer_check.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

constexpr auto spin_time = std::chrono::microseconds(200);

/// A wait in which this thread runs handlers of signals, and the wait around it.
struct interrupted_wait {
  transfer& of;
  interrupted_wait* outer;
};
thread_local interrupted_wait* innermost_wait = nullptr;

}  // namespace

transfer::transfer(std::shared_ptr<core> of, transfer_request const& request, tensor offsets,
                   tensor data, nb::object stream)
    : core_(std::move(of)),
      request_(request),
      name_(core_->path_of(request.fd)),
      offsets_(std::move(offsets)),
      data_(std::move(data)),
      stream_(std::move(stream)) {}

transfer::~transfer() {
  without_gil const release;
  finish();
}

// Called with the GIL if it handles signals, else without.
void transfer::await(bool handle_signals) {
  workspace& w = *workspace_;
  stream& on = on_.has_value() ? *on_ : w.own;
  std::optional<nb::python_error> raised;
  std::optional<without_gil> release;
  if (handle_signals) release.emplace();
  try {
    device_scope const scope(core_->device());
    auto const spun = std::chrono::steady_clock::now() + spin_time;
    while (!on.done() && std::chrono::steady_clock::now() < spun) std::this_thread::yield();
    if (!on.done() && handle_signals) {
      auto waiting = std::async(std::launch::async, [&w, device = core_->device()] {
        device_scope const scope(device);
        w.ended.synchronize();
      });
      while (waiting.wait_for(signal_interval) != std::future_status::ready) {
        with_gil const acquire;
        if (run_handlers()) continue;
        raised.emplace();
        without_gil const again;
        stop_kernel();
        break;
      }
      waiting.get();
    } else {
      w.ended.synchronize();
    }
    if (!on_.has_value()) on.synchronize();  // tells of failures of our own stream
    w.state.copy_to_host(&failure_, 1);
  } catch (device_error const& error) {
    device_failure_ = error.what();
  }
  running_.reset();  // without the GIL, as it may free
  ended_ = true;
  release.reset();
  if (raised.has_value()) {
    give_back();
    throw std::move(*raised);
  }
}

bool transfer::run_handlers() {
  interrupted_wait here{*this, innermost_wait};
  innermost_wait = &here;
  bool const none_raised = PyErr_CheckSignals() == 0;
  innermost_wait = here.outer;
  return none_raised;
}

void transfer::stop_kernel() {
  device_scope const scope(core_->device());
  constexpr std::uint64_t stop = 1;
  stopped_ = true;
  workspace_->state.copy_from_host(&stop, 1, 1);
}

bool transfer::is_interrupted() const {
  auto const* w = innermost_wait;
  while (w != nullptr && &w->of != this) w = w->outer;
  return w != nullptr;
}

void transfer::refuse_in_handler(core const& of, std::optional<int> fd) {
  bool any = false;
  for (auto* w = innermost_wait; w != nullptr; w = w->outer) {
    if (w->of.core_.get() != &of || fd.value_or(w->of.fd()) != w->of.fd()) continue;
    w->of.stop_kernel();
    any = true;
  }
  if (any)
    throw std::runtime_error(
        "a signal handler cannot close what the transfer that it interrupts uses: the "
        "transfer has been told to stop; close when it has ended");
}

void transfer::throw_if_stopped() const {
  if (stopped_)
    throw_os_error(ECANCELED, std::string(std::strerror(ECANCELED)) +
                                  ": a signal handler stopped it, and records were not moved");
}

void transfer::give_back() noexcept {
  if (workspace_ != nullptr && device_failure_.empty())
    core_->return_workspace(std::move(workspace_));
  workspace_.reset();
  use_.reset();
}

void transfer::finish() noexcept {
  if (core_->in_child()) {  // the kernel and the buffers are the parent's
    static_cast<void>(workspace_.release());
    return;
  }
  std::lock_guard const lock(mutex_);
  try {
    if (!ended_) await(false);
  } catch (std::exception const& error) {
    device_failure_ = error.what();
    ended_ = true;
  }
  running_.reset();
  give_back();
}

void transfer::finish_or_raise() {
  for (;;) {
    std::unique_lock lock(mutex_, std::defer_lock);
    {
      without_gil const release;
      static_cast<void>(lock.try_lock_for(signal_interval));
    }
    if (!lock.owns_lock()) {  // another thread waits for it
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      continue;
    }
    if (!ended_) await(true);
    give_back();
    return;
  }
}

void transfer::stop() noexcept {
  std::unique_lock const lock(mutex_, std::try_to_lock);
  try {
    if (lock.owns_lock() && !has_ended()) stop_kernel();
  } catch (device_error const&) {  // wait() tells of it
  }
}

void transfer::wait() {
  core_->refuse_in_child();
  if (is_interrupted())
    throw std::runtime_error("a signal handler cannot wait for the transfer that it interrupts");
  finish_or_raise();
  if (!device_failure_.empty()) throw device_error(device_failure_);
  throw_if_stopped();
  if (failure_ != ~std::uint64_t{0}) throw_failure(failure_);
}

bool transfer::has_ended() const {
  return ended_ || (on_.has_value() ? *on_ : workspace_->own).done();
}

bool transfer::done() {
  core_->refuse_in_child();
  if (is_interrupted()) return false;
  std::unique_lock const lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !has_ended()) return false;  // another thread may wait for it
  if (running_.has_value()) {
    without_gil const release;
    running_.reset();  // what is kept for its kernel need not wait for wait()
  }
  return true;
}

void transfer::throw_failure(std::uint64_t failure) const {
  std::uint64_t const record = failure >> 16, code = failure & 0xffff;
  std::string place = "record " + std::to_string(record);
  if (!offsets_->on_device()) {
    std::uint64_t offset;
    {
      without_gil const release;  // as in check_records()
      offset = numbers_of(*offsets_)[record];
    }
    place = place_of(record, offset, offsets_->kind());
  }
  if (code == lies_outside)
    throw_index_error(
        place + ", " + std::to_string(request_.size) + " bytes: must lie within the " +
        (request_.writes ? std::to_string(most_file_bytes) + " bytes that a file may have"
                         : "file"));
  if (code == came_short && !request_.writes)
    throw_index_error(place + ": the file has less than " + std::to_string(request_.size) +
                      " bytes there");
  std::int64_t const error = code == came_short ? EIO : std::int64_t(code);
  throw_file_error(error, request_.fd, name_, request_.writes ? "writing" : "reading", place);
}

}  // namespace gpufs::python
