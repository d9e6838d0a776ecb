#include <nanobind/nanobind.h>
#include <python/src/core.hpp>
#include <python/src/frees.hpp>
#include <python/src/gil.hpp>
#include <python/src/records.hpp>
#include <python/src/transfer.hpp>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace gpufs::python {

device_scope::device_scope(int number) : before_(current_device_number()), now_(number) {
  if (before_ != now_) make_device_current(now_);
}

device_scope::~device_scope() {
  try {
    if (before_ != now_) make_device_current(before_);
  } catch (device_error const& error) {
    std::fprintf(stderr, "gpufs: %s\n", error.what());
  }
}

namespace {

/// Throws device_error naming the setting.
void refuse_missing(int device) {
  std::string why = "there is no such device";
  try {
    device_scope const scope(device);
    if (current_device_number() == device) return;
  } catch (device_error const& error) {  // one that is there may be out of order, or not free
    std::string const text = error.what();
    bool const is_missing = text.find("cudaErrorInvalidDevice") != std::string::npos;
    why = is_missing ? why + ": " + text : text;
  }
  throw device_error("device=" + std::to_string(device) + ": " + why);
}

/// Makes room for `count` elements. What `b` had is freed when no transfer runs.
template <class T>
void grow(buffer<T>& b, std::uint64_t count) {
  if (b.size() >= count) return;
  buffer<T> larger = allocate<T>(std::bit_ceil(count));
  std::uint64_t const bytes = b.bytes();
  if (bytes != 0) free_between_transfers(std::make_shared<buffer<T>>(std::move(b)), bytes);
  b = std::move(larger);
}

}  // namespace

workspace::workspace() : state(2) {}

void workspace::reserve(std::uint64_t records, std::uint64_t staged_bytes) {
  grow(offsets, records);
  grow(staging, staged_bytes);
}

core::core(config const& settings, std::optional<int> device) : process_(::getpid()) {
  device_ = device.has_value() ? *device : current_device_number();
  refuse_missing(device_);
  device_scope const scope(device_);
  load_record_kernels();
  files_ = std::make_unique<filesystem>(settings);
}

core::~core() {
  std::optional<without_gil> release;
  if (PyGILState_Check() != 0) release.emplace();
  try {
    int const error = close();
    if (error != 0) std::fprintf(stderr, "gpufs: Filesystem.close(): %s\n", std::strerror(-error));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "gpufs: Filesystem.close(): %s\n", error.what());
  }
}

int core::close() {
  if (in_child()) {  // locks may be held by threads that the child does not have
    static_cast<void>(files_.release());
    for (auto& w : idle_) static_cast<void>(w.release());
    return 0;
  }
  transfer::refuse_in_handler(*this, std::nullopt);
  std::vector<std::weak_ptr<transfer>> under_way;
  {
    std::unique_lock lock(mutex_);
    if (closing_) {  // by another thread
      unused_.wait(lock, [&] { return has_ended_; });
      return 0;
    }
    closing_ = true;
    under_way.swap(transfers_);
  }
  finish(under_way);
  {
    std::unique_lock lock(mutex_);
    unused_.wait(lock, [&] { return users_ == 0; });
  }
  return end();
}

// Nobody else has it now. It ends whatever is thrown: other calls of close() wait for that.
int core::end() {
  int error = 0;
  std::exception_ptr failure;
  {
    std::optional<device_scope> scope;
    try {
      scope.emplace(device_);
      error = files_->sync();
    } catch (...) {
      failure = std::current_exception();
    }
    files_.reset();
    idle_.clear();
  }
  {
    std::lock_guard const lock(mutex_);
    has_ended_ = true;
    unused_.notify_all();
  }
  if (failure) std::rethrow_exception(failure);
  return error;
}

// Allocates nothing, as a close() that has begun must come to its end.
void core::finish(std::vector<std::weak_ptr<transfer>> const& all) noexcept {
  for (auto const& t : all) {
    auto held = t.lock();
    if (held == nullptr) continue;
    held->finish();
    with_gil const acquire;  // a transfer ends with its last owner, with the GIL
    held.reset();
  }
}

void core::finish_transfers(std::optional<int> fd) {
  if (in_child()) return;
  for (;;) {
    finish_named(fd);
    if (!fd) return;
    // One that nobody names any more ends by itself. One that begins has a name by then.
    {
      without_gil const release;
      std::unique_lock lock(mutex_);
      if (unused_.wait_for(lock, signal_interval, [&] { return !moving_.contains(*fd); })) return;
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

// finish_transfers() for those that have an owner.
void core::finish_named(std::optional<int> fd) {
  std::vector<std::shared_ptr<transfer>> held;  // a transfer ends with its last owner, with the GIL
  {
    without_gil const release;
    transfer::refuse_in_handler(*this, fd);
    std::lock_guard const lock(mutex_);
    held.reserve(transfers_.size());
    for (auto const& t : transfers_)
      if (auto one = t.lock()) held.push_back(std::move(one));
  }
  auto const is_of_others = [&](auto const& t) { return t->fd() != fd.value_or(t->fd()); };
  try {
    for (auto const& t : held)
      if (!is_of_others(t)) t->finish_or_raise();
  } catch (...) {
    without_gil const release;
    for (auto const& t : held)
      if (!is_of_others(t)) t->stop();
    throw;
  }
}

bool core::in_child() const { return process_ != ::getpid(); }

bool core::closed() const {
  if (in_child()) return true;
  std::lock_guard const lock(mutex_);
  return closing_;
}

void core::refuse_in_child() const {
  if (in_child())
    throw std::system_error(EPERM, std::generic_category(),
                            "the filesystem belongs to process " + std::to_string(process_) +
                                ": start processes by spawn, not by fork()");
}

core::use::use(core& of, std::optional<int> fd) : of_(of), fd_(fd) {
  of.refuse_in_child();
  {
    std::lock_guard const lock(of_.mutex_);
    if (of_.closing_) throw nanobind::value_error("the filesystem is closed");
    if (fd_) ++of_.moving_[*fd_];
    ++of_.users_;
  }
}

core::use::~use() {
  if (!of_.in_child()) of_.end_use(fd_);
}

void core::end_use(std::optional<int> fd) {
  std::lock_guard const lock(mutex_);
  bool const was_last = fd && --moving_[*fd] == 0;
  if (was_last) moving_.erase(*fd);
  if (--users_ == 0 || was_last) unused_.notify_all();
}

std::unique_ptr<workspace> core::take_workspace() {
  {
    std::lock_guard const lock(mutex_);
    if (!idle_.empty()) {
      auto w = std::move(idle_.back());
      idle_.pop_back();
      return w;
    }
  }
  return std::make_unique<workspace>();
}

void core::return_workspace(std::unique_ptr<workspace> w) {
  std::lock_guard const lock(mutex_);
  idle_.push_back(std::move(w));
}

void core::note_open(int fd, std::string const& path) {
  std::lock_guard const lock(mutex_);
  opened& o = opened_[fd];
  o.path = path;
  ++o.times;
}

std::string core::forget_open(int fd) {
  std::lock_guard const lock(mutex_);
  auto const found = opened_.find(fd);
  if (found == opened_.end()) return {};
  std::string path = found->second.path;
  if (--found->second.times == 0) opened_.erase(found);
  return path;
}

std::string core::path_of(int fd) const {
  std::lock_guard const lock(mutex_);
  auto const found = opened_.find(fd);
  return found != opened_.end() ? found->second.path : std::string();
}

void core::add(std::shared_ptr<transfer> const& t) {
  std::lock_guard const lock(mutex_);
  if (closing_) throw nanobind::value_error("the filesystem is closed");
  std::erase_if(transfers_, [](auto const& other) { return other.expired(); });
  transfers_.push_back(t);
}

}  // namespace gpufs::python
