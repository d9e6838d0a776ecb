#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/mapping/touch_reader.hpp>

#include <memory>
#include <new>

#include <pthread.h>

namespace gpufs::shared {

namespace {

std::tuple<std::uintptr_t, bool, bool, pid_t> key_of(fault const& f) {
  return {f.address / device_memory::host_page, f.kind == touch_kind::write, f.in_kernel, f.thread};
}

}  // namespace

touch_reader::touch_reader(guarded_range& range, fault_queue& queue)
    : range_(range), queue_(queue) {
  no_signals const inherited;  // by the thread
  thread_ = std::thread([this] { read_touches(); });
}

void touch_reader::stop() noexcept {
  if (!thread_.joinable()) return;
  range_.user_faults()->stop();
  thread_.join();
}

void touch_reader::read_touches() {
  ::pthread_setname_np(::pthread_self(), "gpufs-touches");
  auto const base = reinterpret_cast<std::uintptr_t>(range_.base());
  while (auto const touch = range_.user_faults()->next()) {
    std::uint64_t const at = touch->address - base;
    if (range_.lets_through(at, touch->writes)) continue;
    try {
      post(*touch);
    } catch (std::bad_alloc const&) {
      range_.wake(at);  // it comes again
    }
  }
  range_.give_up_all();
}

void touch_reader::post(stopped_access const& touch) {
  std::unique_ptr<fault> f(
      new fault{touch.address, touch.writes ? touch_kind::write : touch_kind::read,
                device_memory::runs_kernels(touch.thread), touch.thread, this});
  {
    std::lock_guard const lock(mutex_);
    if (!posted_.insert(key_of(*f)).second) return;
  }
  queue_.post(*f.release());
}

// The fault is forgotten before any thread is woken. So one that waits from now on posts its own.
void touch_reader::answered(fault& f, fault_answer with) noexcept {
  std::unique_ptr<fault> const posted(&f);
  {
    std::lock_guard const lock(mutex_);
    posted_.erase(key_of(f));
  }
  std::uint64_t const at = f.address - reinterpret_cast<std::uintptr_t>(range_.base());
  if (with == fault_answer::served)
    range_.wake(at);
  else
    range_.give_up(at);
}

}  // namespace gpufs::shared
