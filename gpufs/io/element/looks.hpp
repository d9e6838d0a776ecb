// The ways in which array looks for a page in the cache.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstdint>
#include <utility>

namespace gpufs::io {

/// cache::see_page() as a function object.
struct near_look {
  template <class Early>
  __device__ __forceinline__ bool operator()(fs_ref const& fs, std::uint64_t version,
                                             std::uint64_t page, cache::seen_frame& seen,
                                             Early&& early) const {
    // A copy: behind each volatile load the compiler would load its members again.
    handle::page_cache_ref const c = fs.cache;
    return cache::see_page(c, version, page, seen, std::forward<Early>(early));
  }
};

/// cache::see_page_further() as a function object.
struct far_look {
  template <class Early>
  __device__ __forceinline__ bool operator()(fs_ref const& fs, std::uint64_t version,
                                             std::uint64_t page, cache::seen_frame& seen,
                                             Early&& early) const {
    seen = cache::see_page_further(&fs.cache, version, page);
    if (seen.header == nullptr) return false;
    early(seen.bytes);
    return true;
  }
};

}  // namespace gpufs::io
