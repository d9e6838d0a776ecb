// The group of lanes that came to a call of gpufs::converged() together. Both devices use this
// code.
#pragma once

namespace gpufs {

/// A set of lanes of one warp, numbered 0..size()-1 in the order of their lanes. All lanes of the
/// set must make the same calls. ballot and match_any number the lanes within the set, as CUDA's
/// coalesced_group does. Only sync() orders memory.
class converged_group {
 public:
  /// `mask`: the lanes of the set, with the caller's.
  __device__ explicit converged_group(unsigned mask) : mask_(mask) {}

  /// The lanes of the set: bit i for lane i of the warp.
  [[nodiscard]] __device__ unsigned mask() const { return mask_; }
  [[nodiscard]] __device__ unsigned size() const { return unsigned(__popc(mask_)); }
  [[nodiscard]] __device__ unsigned num_threads() const { return size(); }
  [[nodiscard]] __device__ unsigned thread_rank() const {
    return unsigned(__popc(mask_ & ((1u << lane_id()) - 1)));
  }

  __device__ void sync() const { __syncwarp(mask_); }
  [[nodiscard]] __device__ unsigned ballot(bool predicate) const {
    return packed(__ballot_sync(mask_, predicate));
  }
  [[nodiscard]] __device__ bool any(bool predicate) const {
    return __any_sync(mask_, predicate) != 0;
  }
  [[nodiscard]] __device__ bool all(bool predicate) const {
    return __all_sync(mask_, predicate) != 0;
  }
  template <class T>
  [[nodiscard]] __device__ unsigned match_any(T value) const {
    return packed(__match_any_sync(mask_, value));
  }
  /// Returns the value of the lane with rank `source` in the set.
  template <class T>
  [[nodiscard]] __device__ T shfl(T value, unsigned source) const {
    return __shfl_sync(mask_, value, int(lane_of(source)));
  }

 private:
  [[nodiscard]] __device__ unsigned lane_of(unsigned rank) const {
    unsigned left = mask_;
    for (; rank > 0; --rank) left &= left - 1;
    return unsigned(__ffs(int(left))) - 1;
  }
  [[nodiscard]] __device__ unsigned packed(unsigned lanes) const {
    unsigned result = 0;
    unsigned rank = 0;
    for (unsigned left = mask_; left != 0; left &= left - 1, ++rank) {
      unsigned const lane = unsigned(__ffs(int(left))) - 1;
      result |= (lanes >> lane & 1u) << rank;
    }
    return result;
  }

  unsigned mask_;
};

}  // namespace gpufs
