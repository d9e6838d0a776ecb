#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/mapping/touch_reader.hpp>

#include <memory>
#include <new>

#include <pthread.h>

namespace gpufs::shared {

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
    auto* const f = new (std::nothrow)
        fault{touch->address, touch->writes ? touch_kind::write : touch_kind::read,
              device_memory::runs_kernels(touch->thread)};
    if (f == nullptr) {
      range_.wake(at);  // it comes again
      continue;
    }
    f->listener = this;
    queue_.post(*f);
  }
  range_.give_up_all();
}

void touch_reader::answered(fault& f, fault_answer with) noexcept {
  std::unique_ptr<fault> const posted(&f);
  std::uint64_t const at = f.address - reinterpret_cast<std::uintptr_t>(range_.base());
  if (with == fault_answer::served)
    range_.wake(at);
  else
    range_.give_up(at);
}

}  // namespace gpufs::shared
