// Parts of the report of a run: device, settings, counters.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/device.hpp>
#include <gpufs/statistics.hpp>

#include <apps/common/json_line.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpufs::apps {

/// The device that kernels will run on. Throws device_error if there is none, saying what to do.
[[nodiscard]] device_info device_to_run_on();

/// Adds name, device, kind ("cuda" or "emulated"), version, commit, CPU, kernel and date (UTC).
void add_heading(json_line& to, std::string_view name);

/// The counters of a measured run between two snapshots of a filesystem. `registering_ns` counts
/// from the filesystem's start: what a run gains from may have been registered in its warm-up.
[[nodiscard]] statistics counters_of_run(statistics const& before, statistics const& after);

/// Milliseconds of registering file windows that the run gained from. Nothing if it had none.
[[nodiscard]] std::optional<double> registering_ms(statistics const& counters);

/// The same as the end of a line, "; registering file windows took 1.2 ms". Empty if it had none.
[[nodiscard]] std::string registering_text(statistics const& counters);

/// Adds bytes, seconds, GBps, registering_ms and the counters.
void add_throughput(json_line& to, std::uint64_t bytes, double seconds, statistics const& counters);

/// Adds the member "settings", an object with every setting; sizes in bytes.
void add_settings(json_line& to, config const& c);

/// The settings that are not what they are by default, "page_size=4K cache_size=2G"; "defaults" if
/// there are none.
[[nodiscard]] std::string changed_settings(config const& c);

/// How often each of `wanted` bytes was read from the host: by the daemon, or by kernels out of
/// file windows. Nothing if none are wanted.
[[nodiscard]] std::optional<double> host_reads_per_byte(statistics const& counters,
                                                        std::uint64_t wanted);

/// The same as a line of a report, "each wanted byte was read 1.00 times from the host", and
/// registering_text().
[[nodiscard]] std::string host_reads_text(statistics const& counters, std::uint64_t wanted);

[[nodiscard]] constexpr double gigabytes_per_second(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

}  // namespace gpufs::apps
