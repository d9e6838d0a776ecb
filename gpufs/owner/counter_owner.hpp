// Owns the counters of device code.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/statistics.hpp>

#include <cstdint>
#include <vector>

namespace gpufs::owner {

/// See gpufs/owner/subsystems.hpp.
class counter_owner {
 public:
  counter_owner(config const&, layout const&)
      : words_(on_device<std::uint64_t>(handle::counter_stripes * handle::counters_per_stripe,
                                        "counters", lower_cache)) {}

  void fill(fs_ref& r) const { r.counters = words_.data(); }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(words_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return 0; }

  /// Adds what has been counted so far to the members of `s` that device code counts.
  void add_to(statistics& s) const {
    std::vector<std::uint64_t> all(words_.size());
    words_.copy_to_host(all.data(), all.size());
    auto const sum = [&](handle::counter which) {
      std::uint64_t n = 0;
      for (unsigned stripe = 0; stripe < handle::counter_stripes; ++stripe)
        n += all[stripe * handle::counters_per_stripe + static_cast<unsigned>(which)];
      return n;
    };
#define GPUFS_ADD(name, help) s.name += sum(handle::counter::name);
    GPUFS_DEVICE_COUNTERS(GPUFS_ADD)
#undef GPUFS_ADD
  }

 private:
  buffer<std::uint64_t> words_;
};

}  // namespace gpufs::owner
