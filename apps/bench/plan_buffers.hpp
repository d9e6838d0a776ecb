// Shared by the kernels of `gpufs bench`: a buffer for each block, and the first read that failed.
#pragma once

#include <gpufs/device.hpp>

#include <apps/bench/access_plan.hpp>
#include <apps/bench/kernels.hpp>
#include <apps/common/seconds_since.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace gpufs::apps {

/// In device memory. `taken` elects the one that is reported.
struct failure_record {
  std::uint32_t taken;
  std::int64_t result;
  std::uint64_t offset;
  std::uint64_t bytes;
};

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
__device__ inline void record_failure(failure_record* f, access const& a, ssize_t result) {
  // Relaxed: elects one writer; the host reads after the kernel.
  if (threadIdx.x % 32 != 0 ||
      atomic_ref<std::uint32_t, scope::device>(f->taken).exchange(1, memory_order_relaxed) != 0)
    return;
  f->result = result;
  f->offset = a.offset;
  f->bytes = a.bytes;
}
#endif

/// Device memory that a plan's kernels work with.
struct plan_buffers {
  access_plan plan;  ///< as kernels take it
  bench_shape shape;
  /// bytes from one reader's buffer to the next: a request, aligned as an allocation of its own
  /// would be
  std::uint64_t each;
  buffer<std::byte> bytes;
  buffer<failure_record> failure;
  buffer<std::uint32_t> drawn;  ///< plan.drawn

  /// With `depth` buffers for each reader. Throws device_error naming --req and --blocks if the
  /// device has no room.
  plan_buffers(access_plan const& p, bench_shape s, unsigned depth = 1)
      : plan(p),
        shape(s),
        each((p.request + 255) / 256 * 256),
        bytes(make(s.readers() * depth * each)),
        failure(1) {
    failure.fill_zero();
    if (p.drawn == nullptr) return;
    drawn = buffer<std::uint32_t>(p.draws);
    drawn.copy_from_host(p.drawn, p.draws);
    plan.drawn = drawn.data();
  }

  [[nodiscard]] bench_failure take_failure() {
    failure_record f;
    failure.copy_to_host(&f, 1);
    failure.fill_zero();
    return {f.taken != 0, f.result, f.offset, f.bytes};
  }

 private:
  static buffer<std::byte> make(std::uint64_t bytes) {
    try {
      return buffer<std::byte>(bytes);
    } catch (device_error const& e) {
      throw device_error(std::string(e.what()) +
                         " (one buffer of --req bytes for each of --blocks blocks, or of their "
                         "warps: lower one of them)");
    }
  }
};

}  // namespace gpufs::apps
