#include <gpufs/mapping/bell.hpp>
#include <gpufs/mapping/futex.hpp>

namespace gpufs::shared {

// Sequentially consistent, as are the accesses in sleep(): either this thread sees that the other
// one sleeps, or that one's wait sees the new number and ends at once.
void bell::ring() noexcept {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeps_.load(std::memory_order_seq_cst)) futex_wake(&rings_);
}

template <class Wait>
void bell::sleep(std::uint32_t seen, Wait const& wait) noexcept {
  sleeps_.store(true, std::memory_order_seq_cst);
  if (rings_.load(std::memory_order_seq_cst) == seen) wait(rings_, seen);
  sleeps_.store(false, std::memory_order_relaxed);
}

void bell::wait(std::uint32_t seen) noexcept { sleep(seen, futex_wait); }

void bell::wait_shortly(std::uint32_t seen) noexcept { sleep(seen, futex_wait_shortly); }

}  // namespace gpufs::shared
