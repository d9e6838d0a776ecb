#include <gpufs/version.hpp>

#include <apps/common/build_facts.hpp>
#include <apps/common/run_report.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>

namespace gpufs::apps {

namespace {

using namespace std::literals;

/// Whether the text of a setting stands for a number, such as 64K.
bool is_number(std::string const& text) {
  auto const is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  auto const end = std::ranges::find_if_not(text, is_digit);
  return end != text.begin() &&
         (end == text.end() || (end + 1 == text.end() && "KMGT"sv.find(*end) != "KMGT"sv.npos));
}

}  // namespace

device_info device_to_run_on() {
  try {
    return current_device();
  } catch (device_error const& e) {
    throw device_error(fmt::format(
        "no device to run on ({}); the emulated variant of gpufs needs none", e.what()));
  }
}

void add_heading(json_line& to, std::string_view name) {
  device_info const device = current_device();
  to.text("name", name).text("device", device.name).text("kind", device.kind);
  to.text("version", GPUFS_VERSION_STRING).text("commit", commit());
  to.text("cpu", cpu_name()).text("kernel", kernel_name());
  to.text("date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))));
}

statistics counters_of_run(statistics const& before, statistics const& after) {
  statistics counters = after - before;
  counters.registering_ns = after.registering_ns;
  return counters;
}

std::optional<double> registering_ms(statistics const& counters) {
  if (counters.registering_ns == 0) return std::nullopt;
  return static_cast<double>(counters.registering_ns) / 1e6;
}

std::string registering_text(statistics const& counters) {
  auto const ms = registering_ms(counters);
  return ms ? fmt::format("; registering file windows took {:.1f} ms", *ms) : "";
}

void add_throughput(json_line& to, std::uint64_t bytes, double seconds,
                    statistics const& counters) {
  to.integer("bytes", bytes)
      .number("seconds", seconds)
      .number("GBps", gigabytes_per_second(bytes, seconds))
      .number("registering_ms", registering_ms(counters));
  to.members(to_json_fields(counters));
}

void add_settings(json_line& to, config const& c) {
  json_line all;
  for (auto const& s : settings()) {
    std::string const text = s.print(c);
    if (is_number(text)) {
      all.integer(s.key, parse_size(text, s.key));
    } else {
      all.text(s.key, text);
    }
  }
  to.object("settings", all);
}

std::optional<double> host_reads_per_byte(statistics const& counters, std::uint64_t wanted) {
  if (wanted == 0) return std::nullopt;
  return static_cast<double>(counters.host_bytes + counters.bytes_registered) /
         static_cast<double>(wanted);
}

std::string host_reads_text(statistics const& counters, std::uint64_t wanted) {
  auto const times = host_reads_per_byte(counters, wanted);
  if (!times) return "no byte was wanted from the host";
  if (*times == 0 && counters.read_requests != 0)
    return "kernels read the bytes by NVMe commands of their own, none from the host";
  return fmt::format("each wanted byte was read {:.2f} times from the host{}", *times,
                     registering_text(counters));
}

std::string changed_settings(config const& c) {
  std::string out;
  config const defaults;
  for (auto const& s : settings()) {
    if (s.print(c) != s.print(defaults))
      out += fmt::format("{}{}={}", out.empty() ? "" : " ", s.key, s.print(c));
  }
  return out.empty() ? "defaults" : out;
}

}  // namespace gpufs::apps
