// The first error that a kernel of an analytics program has met.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps::analytics {

/// A word in device memory: 0, or the number of a file plus one, and -errno, in 32 bits each.
using error_word = std::uint64_t;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
/// Keeps the first error. Any thread calls; `error` is 0 or -errno.
__device__ inline void note_error(error_word* to, unsigned file, std::int64_t error) {
  if (error >= 0) return;
  error_word none = 0;
  error_word const word = error_word{file + 1} << 32 | static_cast<std::uint32_t>(-error);
  // Relaxed: any of the errors will do. The host reads it after the kernel.
  atomic_ref<error_word, scope::device>(*to).compare_exchange_strong(none, word,
                                                                     memory_order_relaxed);
}

/// Whether there was an error. All lanes of a warp call and get the same answer. Kernels stop then:
/// after a time-out each further access may take as long.
__device__ inline bool has_failed(error_word* word) {
  // Relaxed: as above.
  return __any_sync(0xffffffffu, atomic_ref<error_word, scope::device>(*word).load(
                                     memory_order_relaxed) != 0) != 0;
}
#endif

/// Throws std::runtime_error naming file and error, unless the word is 0.
void require_no_error(error_word word, std::vector<std::string> const& files);

/// The word of a kernel.
class kernel_errors {
 public:
  kernel_errors() : word_(1) { clear(); }
  void clear() { word_.fill_zero(); }
  [[nodiscard]] error_word* word() const { return word_.data(); }

  /// After the kernels: as require_no_error().
  void require_none(std::vector<std::string> const& files) const;

 private:
  buffer<error_word> word_;
};

}  // namespace gpufs::apps::analytics
