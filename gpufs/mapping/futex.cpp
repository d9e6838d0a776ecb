#include <gpufs/mapping/futex.hpp>

#include <time.h>

#include <climits>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpufs::shared {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void futex_wait_shortly(std::atomic<std::uint32_t>& word, std::uint32_t seen) noexcept {
  constexpr timespec at_most{.tv_sec = 0, .tv_nsec = 50'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &at_most, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gpufs::shared
