#include <gpufs/config.hpp>

#include <apps/common/program.hpp>
#include <apps/gpufs/trace_report.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace gpufs::apps {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t most_files = 20;  // in the text

std::string microseconds(std::uint64_t ns) { return fmt::format("{:.1f} us", double(ns) / 1e3); }

std::string with_unit(double bytes) {
  return bytes < 1e6   ? fmt::format("{:.1f} kB", bytes / 1e3)
         : bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6)
                       : fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string file_text(file_sums const& f) {
  auto out = fmt::format("{}\n", f.name);
  if (f.reads != 0) {
    out += fmt::format("  {} reads, {}; {} different bytes, each read {:.2f} times, at most {}\n",
                       f.reads, with_unit(double(f.bytes_read)), f.distinct_bytes(), f.mean_reads(),
                       f.most_reads());
    if (f.counts.size() > 1) {
      out += "  read so often: bytes\n";
      for (auto const& [times, bytes] : f.counts)
        out += fmt::format("  {:>13}: {}\n", times, bytes);
    }
  }
  if (f.writes + f.syncs != 0)
    out += fmt::format("  {} writes, {}; {} syncs\n", f.writes, with_unit(double(f.bytes_written)),
                       f.syncs);
  if (f.opens + f.maps != 0)
    out += fmt::format("  opened {} times, {} file windows registered\n", f.opens, f.maps);
  if (f.errors != 0) out += fmt::format("  {} requests failed\n", f.errors);
  return out;
}

std::string tables(trace_sums const& sums) {
  std::string out = "\nrequests by kind and path\n";
  for (auto const& [key, s] : sums.paths)
    out += fmt::format("  {:<6} {:<11} {:>10} requests {:>12}\n", key.first, key.second, s.requests,
                       with_unit(double(s.bytes)));
  out += "\ntimes by kind\n";
  for (auto const& [op, h] : sums.times)
    out += fmt::format("  {:<6} mean {:>12}, half below {:>12}, 99 % below {:>12}\n", op,
                       microseconds(h.mean_ns()), microseconds(h.below_ns(0.5)),
                       microseconds(h.below_ns(0.99)));
  out += "\nlengths by kind\n";
  for (auto const& [op, sizes] : sums.sizes)
    for (auto const& [size, count] : sizes)
      out += fmt::format("  {:<6} from {:>5} on {:>10} requests\n", op, format_size(size), count);
  return out;
}

std::string problems(trace_lines const& trace, trace_sums const& sums) {
  std::string out;
  if (!sums.errors.empty()) out += "\nerrors\n";
  for (auto const& [key, e] : sums.errors)
    out += fmt::format("  {:<6} {}: {} times, first in line {}\n", key.first,
                       error_text(key.second), e.requests, e.first_line);
  if (trace.dropped != 0)
    out += fmt::format("\n{} lines could not be written to the trace\n", trace.dropped);
  if (trace.ended < trace.begun)
    out += fmt::format(
        "\n{} of {} processes or filesystems did not end the trace: they were killed, or still "
        "run; up to a second of it is missing\n",
        trace.begun - trace.ended, trace.begun);
  return out;
}

ordered_json to_json(file_sums const& f) {
  ordered_json counts = ordered_json::array();
  for (auto const& [times, bytes] : f.counts) counts.push_back({times, bytes});
  return {{"name", f.name},
          {"opens", f.opens},
          {"reads", f.reads},
          {"bytes_read", f.bytes_read},
          {"distinct_bytes_read", f.distinct_bytes()},
          {"mean_reads_of_a_byte", f.mean_reads()},
          {"most_reads_of_a_byte", f.most_reads()},
          {"bytes_by_reads", counts},
          {"writes", f.writes},
          {"bytes_written", f.bytes_written},
          {"syncs", f.syncs},
          {"maps", f.maps},
          {"errors", f.errors}};
}

ordered_json to_json(traced_request const& r, trace_lines const& trace) {
  return {{"line", r.line},     {"op", r.op},
          {"path", r.path},     {"file", trace.files[r.file]},
          {"offset", r.offset}, {"length", r.length},
          {"bytes", r.bytes},   {"duration_ns", r.duration_ns},
          {"errno", r.error}};
}

}  // namespace

std::string to_text(trace_lines const& trace, trace_sums const& sums) {
  auto out = fmt::format(
      "{} requests in {:.3f} s, {:.0f} per second\nread {}, {}/s, at most {}/s; written {}, "
      "{}/s\n\n",
      trace.requests.size(), sums.seconds,
      sums.seconds > 0 ? double(trace.requests.size()) / sums.seconds : 0,
      with_unit(double(sums.bytes_read)),
      with_unit(sums.seconds > 0 ? double(sums.bytes_read) / sums.seconds : 0),
      with_unit(sums.most_read_per_second), with_unit(double(sums.bytes_written)),
      with_unit(sums.seconds > 0 ? double(sums.bytes_written) / sums.seconds : 0));
  for (std::size_t i = 0; i < std::min(sums.files.size(), most_files); ++i)
    out += file_text(sums.files[i]);
  if (sums.files.size() > most_files)
    out += fmt::format("and {} files with fewer bytes; --json has them all\n",
                       sums.files.size() - most_files);
  out += tables(sums);
  if (!sums.slowest.empty()) out += "\nslowest requests\n";
  for (auto const& r : sums.slowest)
    out += fmt::format("  {:>14} {:<6} {:<11} {} bytes at {} of {} (line {})\n",
                       microseconds(r.duration_ns), r.op, r.path, r.length, r.offset,
                       trace.files[r.file], r.line);
  return out + problems(trace, sums);
}

std::string to_json(trace_lines const& trace, trace_sums const& sums) {
  ordered_json j{{"name", "trace"},
                 {"requests", trace.requests.size()},
                 {"seconds", sums.seconds},
                 {"bytes_read", sums.bytes_read},
                 {"bytes_written", sums.bytes_written},
                 {"most_bytes_read_per_second", sums.most_read_per_second},
                 {"malformed_lines", trace.malformed.size()},
                 {"dropped_lines", trace.dropped},
                 {"begun", trace.begun},
                 {"ended", trace.ended}};
  for (auto* const list : {"files", "paths", "times", "sizes", "errors", "slowest"})
    j[list] = ordered_json::array();
  for (auto const& f : sums.files) j["files"].push_back(to_json(f));
  for (auto const& [key, s] : sums.paths)
    j["paths"].push_back(
        {{"op", key.first}, {"path", key.second}, {"requests", s.requests}, {"bytes", s.bytes}});
  for (auto const& [op, h] : sums.times)
    j["times"].push_back({{"op", op},
                          {"requests", h.requests()},
                          {"mean_ns", h.mean_ns()},
                          {"p50_ns", h.below_ns(0.5)},
                          {"p99_ns", h.below_ns(0.99)}});
  for (auto const& [op, sizes] : sums.sizes)
    for (auto const& [size, count] : sizes)
      j["sizes"].push_back({{"op", op}, {"from", size}, {"requests", count}});
  for (auto const& [key, e] : sums.errors)
    j["errors"].push_back({{"op", key.first},
                           {"errno", key.second},
                           {"text", error_text(key.second)},
                           {"requests", e.requests},
                           {"first_line", e.first_line}});
  for (auto const& r : sums.slowest) j["slowest"].push_back(to_json(r, trace));
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace gpufs::apps
