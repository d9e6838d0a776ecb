// How a thread of a kernel compares words that it has read with the versions that they may have.
#pragma once

#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/worker.hpp>

#include <cstdint>

namespace gpufs::stress {

/// Whether a filesystem's workers know what a cell may hold. The other filesystem's cells change
/// unnoticed.
__device__ inline bool is_known(stress_job const& job, std::uint64_t cell) {
  auto const owner = static_cast<std::uint32_t>(cell % job.owners);
  if (owner / job.workers == job.filesystem) return true;
  if (owner < job.filesystems * job.workers) return false;
  return owner == job.owners - 1 ? job.foreign_writes == 0 : job.host_writes == 0;
}

/// The last version of a cell whose gwrite has returned. A reader loads it before its call, and the
/// last version that has begun after it.
__device__ inline std::uint32_t acknowledged(stress_job const& job, std::uint64_t cell) {
  // Pairs with the owner's release: the call must see that gwrite.
  return atomic_ref<std::uint32_t>(job.versions[cell].acknowledged).load(memory_order_acquire);
}

/// The words of one cell, as one thread sees them. A word may be of any version from `lowest` to
/// the last that had begun when it was read, and so may each of its bytes.
class cell_check {
 public:
  __device__ cell_check(stress_job const& job, std::uint64_t cell, std::uint32_t lowest)
      : job_(job),
        cell_(cell),
        key_(cell_key(job.seed, cell)),
        lowest_(lowest),
        highest_(lowest),
        usual_(lowest) {}

  /// Compares bytes [from, to) of word `word`, whose value was read before the call.
  /// Returns the first wrong one, or `to`.
  __device__ unsigned first_wrong(std::uint64_t word, std::uint64_t value, unsigned from,
                                  unsigned to) {
    std::uint64_t const mask = ~0ull >> (64 - 8 * (to - from)) << 8 * from;
    if (((value ^ of_version(usual_, word)) & mask) == 0) return to;
    // The word was read before this, so its version has begun.
    highest_ = begun();
    for (std::uint32_t v = lowest_; v <= highest_; ++v) {
      if (((value ^ of_version(v, word)) & mask) != 0) continue;
      usual_ = v;
      return to;
    }
    for (unsigned k = from; k < to; ++k) {
      if (!is_known(word, static_cast<std::uint8_t>(value >> 8 * k), k)) return k;
    }
    return to;
  }

  [[nodiscard]] __device__ std::uint32_t lowest() const { return lowest_; }
  [[nodiscard]] __device__ std::uint32_t highest() const { return highest_; }

 private:
  __device__ std::uint64_t of_version(std::uint32_t version, std::uint64_t word) const {
    return cell_word(key_, version, word, job_.filled != 0);
  }
  __device__ bool is_known(std::uint64_t word, std::uint8_t value, unsigned k) const {
    for (std::uint32_t v = lowest_; v <= highest_; ++v) {
      if (static_cast<std::uint8_t>(of_version(v, word) >> 8 * k) == value) return true;
    }
    return false;
  }
  // A byte of a later version was stored after `begun` rose; this load comes after the byte's.
  __device__ std::uint32_t begun() const {
    // An addition of nothing: unlike a load, its release keeps the loads before it in their place.
    return atomic_ref<std::uint32_t>(job_.versions[cell_].begun).fetch_add(0, memory_order_acq_rel);
  }

  stress_job const& job_;
  std::uint64_t const cell_;
  std::uint64_t const key_;
  std::uint32_t const lowest_;
  std::uint32_t highest_;
  std::uint32_t usual_;  ///< that the last words had
};

}  // namespace gpufs::stress
