// The program's allocations, which fail when a test says so. One source of a suite includes this.
#pragma once

#include <test/support/in_library.hpp>

#include <stdlib.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include <pthread.h>

namespace gpufs::test {

namespace failing {

inline std::atomic<bool> armed{false};
inline std::atomic<bool> goes_on{false};  // the allocations after it fail, too
inline std::atomic<long> left{0};         // allocations before the one that fails

// Allocations count of threads in library(), and of the daemon's.
inline bool is_daemon_thread() {
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::strncmp(name, "gpufs-", 6) == 0;
}

inline void* take(std::size_t bytes, std::size_t alignment) noexcept {
  if (armed.load(std::memory_order_relaxed) && (in_library || is_daemon_thread())) {
    auto const before = left.fetch_sub(1, std::memory_order_relaxed);
    if (before == 0 || (before < 0 && goes_on.load(std::memory_order_relaxed))) return nullptr;
  }
  void* memory = nullptr;
  if (alignment <= sizeof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return ::posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

inline void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}

}  // namespace failing

enum class refused { one, all_from_then_on };

/// While it lives, allocation number `n` fails, or all from there on.
class failing_allocation {
 public:
  explicit failing_allocation(long n, refused which = refused::one) {
    failing::left = n;
    failing::goes_on = which == refused::all_from_then_on;
    failing::armed = true;
  }
  ~failing_allocation() { failing::armed = false; }
  failing_allocation(failing_allocation const&) = delete;
  failing_allocation& operator=(failing_allocation const&) = delete;

  [[nodiscard]] static bool has_failed() { return failing::left < 0; }
};

}  // namespace gpufs::test

#if defined(__CUDACC__)
#pragma nv_diag_suppress 20011, 20014  // nvcc takes operator new for device code, too
#else
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // if it inlines only one of a pair
#endif

// The program's allocations. The other forms of new and delete call these.
void* operator new(std::size_t bytes) { return gpufs::test::failing::take_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return gpufs::test::failing::take_or_throw(bytes, std::size_t(alignment));
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  return gpufs::test::failing::take(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  return gpufs::test::failing::take(bytes, std::size_t(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
