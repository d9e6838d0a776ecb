// The counters of one filesystem, summed over the device and the daemon. Any host thread calls.
#pragma once

#include <gpufs/device_counters.hpp>
#include <gpufs/host_times.hpp>

#include <cstdint>
#include <string>

namespace gpufs {

/// Counters since the filesystem was made, or since the snapshot that was subtracted. Exact once no
/// kernel is running. gpufs/device_counters.hpp says what each member counts.
struct statistics {
#define GPUFS_MEMBER(name, help) std::uint64_t name = 0;
  GPUFS_DEVICE_COUNTERS(GPUFS_MEMBER)
  GPUFS_HOST_COUNTERS(GPUFS_MEMBER)
#undef GPUFS_MEMBER
  /// How long the daemon's requests to the host took.
  host_times times{};

  /// The counters since the snapshot `earlier` of the same filesystem.
  [[nodiscard]] statistics operator-(statistics const& earlier) const;
};

/// What one daemon thread did since the filesystem was made.
struct thread_statistics {
  /// Requests that it took.
  std::uint64_t requests = 0;
  /// Times it looked for work and found none.
  std::uint64_t idle_polls = 0;
  /// Those of the idle polls that came before its first request.
  std::uint64_t polls_before_first = 0;
};

/// One line per counter that is not zero: "  misses           1024". Then one line per kind of host
/// request that was made: "  read times         12 requests, half below 20.5 us, ...".
[[nodiscard]] std::string to_text(statistics const& s);

/// The counters as the inside of a JSON object: "\"hits\": 3, \"misses\": 4, ...". The last member,
/// host_times, is an object: for each kind of request that was made requests, mean_ns, p50_ns,
/// p99_ns, and buckets, a list of [shortest time in ns, requests].
[[nodiscard]] std::string to_json_fields(statistics const& s);

}  // namespace gpufs
