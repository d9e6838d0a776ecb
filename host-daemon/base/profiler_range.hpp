// Ranges that a profiler shows on the time line of a thread: NVTX. The emulated device has none.
#pragma once

#include <string>

namespace gpufs::daemon {

#if defined(GPUFS_EMULATED)
inline bool is_profiled() noexcept { return false; }
inline void begin_profiler_range(std::string const&) noexcept {}
inline void end_profiler_range() noexcept {}
#else
/// Whether a profiler is attached to the process.
bool is_profiled() noexcept;
/// Ranges of a thread lie within each other. They need a profiler.
void begin_profiler_range(std::string const& text) noexcept;
void end_profiler_range() noexcept;
#endif

/// A range for the time of a scope. `make` gives its text; it is called only under a profiler.
class profiler_range {
 public:
  template <class Make>
  explicit profiler_range(Make make) noexcept : open_{is_profiled()} {
    if (!open_) return;
    try {
      begin_profiler_range(make());
    } catch (...) {  // no memory for the text
      open_ = false;
    }
  }
  ~profiler_range() {
    if (open_) end_profiler_range();
  }
  profiler_range(profiler_range const&) = delete;
  profiler_range& operator=(profiler_range const&) = delete;

 private:
  bool open_;
};

}  // namespace gpufs::daemon
