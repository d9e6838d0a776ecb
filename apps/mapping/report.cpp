#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/mapping/report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace gpufs::apps::workloads {

namespace {

constexpr char const* json_option = "--json-to=";

/// Fails before any run if objects cannot be appended to the file.
void check_json_file(std::string const& path) {
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (file == nullptr) throw usage_error(json_option + path + ": " + error_text(errno));
  std::fclose(file);
}

void append_line(std::string const& path, std::string const& line) {
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (file == nullptr) throw std::system_error(errno, std::generic_category(), json_option + path);
  std::string const text = line + "\n";
  bool const is_whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !is_whole)
    throw std::system_error(errno, std::generic_category(), json_option + path);
}

std::vector<double> seconds_of(std::vector<measured> const& runs) {
  std::vector<double> all;
  for (auto const& r : runs) all.push_back(r.seconds);
  return all;
}

}  // namespace

report::report(options const& o, description const& d, setup const& of, std::vector<way> ways)
    : options_(o), description_(d), setup_(of), ways_(std::move(ways)), runs_(ways_.size()) {
  if (!o.json_file.empty()) check_json_file(o.json_file);
}

void report::add(std::size_t w, measured const& m) {
  runs_[w].push_back(m);
  for (auto const& failure : m.failures) {
    print_error("gpufs-mapping: {} {}: {}\n", description_.name, text_of(ways_[w]), failure);
    has_failed_ = true;
  }
  if (!options_.json && !options_.summary) print_text(w, m);
  waiting_.push_back(w);
  auto const hand = std::ranges::find(ways_, variant::hand, &way::how) - ways_.begin();
  auto const h = static_cast<std::size_t>(hand);
  if (h == ways_.size() || runs_[h].size() >= runs_[w].size()) print_json();
}

void report::print_json() {
  for (auto const w : std::exchange(waiting_, {})) {
    std::string const line = json_of(w, runs_[w].back());
    if (options_.json) fmt::print("{}\n", line);
    if (!options_.json_file.empty()) append_line(options_.json_file, line);
  }
}

void report::print_text(std::size_t w, measured const& m) const {
  std::string line =
      fmt::format("{} {}: {:.3f} ms", description_.name, text_of(ways_[w]), m.seconds * 1e3);
  for (std::size_t p = 0; p < phase_count; ++p) {
    if (m.phases[p] != 0) line += fmt::format(", {} {:.3f}", phase_names[p], m.phases[p] * 1e3);
  }
  if (m.is_verified) line += *m.is_verified ? ", verified" : ", WRONG";
  fmt::print("{}\n", line);
  if (options_.counters) fmt::print("{}", to_text(m.moved));
}

std::string report::json_of(std::size_t w, measured const& m) const {
  auto const& how = ways_[w];
  json_line numbers, phases, line;
  for (auto const& p : description_.parameters) numbers.integer(p.name, setup_[p.name]);
  for (std::size_t p = 0; p < phase_count; ++p) phases.number(phase_names[p], m.phases[p]);
  add_heading(line, "gpufs-mapping");
  line.text("workload", description_.name).text("variant", name_of(how.how));
  line.text("way", text_of(how));
  if (how.how == variant::shared) {
    bool const is_managed = how.backing == memory_backing::managed;
    line.text("backing", name_of(how.backing));
    if (!is_managed) line.text("protocol", name_of(how.protocol));
    if (!is_managed) line.integer("block", how.block).integer("rolling", how.rolling);
    line.boolean("declared", options_.declare).boolean("eager", setup_.is_eager);
    line.integer("device_memory", setup_.memory.device_memory);
    if (setup_.memory.host_memory != host_memory_automatic)
      line.integer("host_memory", setup_.memory.host_memory);
  }
  line.object("parameters", numbers).integer("seed", setup_.seed);
  line.number("seconds", m.seconds).number("allocation_seconds", m.allocation);
  line.number("ratio_to_hand", ratio_to_hand(w, runs_[w].size() - 1));
  line.object("phases", phases).integer("launches", m.launches);
  if (how.how == variant::shared) line.members(to_json_fields(m.moved));
  if (m.is_verified) line.boolean("verified", *m.is_verified);
  return line.str();
}

std::optional<double> report::ratio_to_hand(std::size_t w, std::size_t round) const {
  for (std::size_t h = 0; h < ways_.size(); ++h) {
    if (ways_[h].how != variant::hand || runs_[h].size() <= round) continue;
    double const hand = runs_[h][round].seconds;
    return hand > 0 ? std::optional(runs_[w][round].seconds / hand) : std::nullopt;
  }
  return std::nullopt;
}

int report::finish() {
  if (options_.json) return has_failed_ ? status_failed : 0;
  for (std::size_t w = 0; w < ways_.size(); ++w) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < runs_[w].size(); ++round) {
      if (auto const r = ratio_to_hand(w, round)) ratios.push_back(*r);
    }
    auto const& moved = runs_[w].back().moved;
    fmt::print("{:<10} {:<28} {:>10.3f} ms {:>7} of hand {:>10.1f} MB sent {:>10.1f} MB fetched\n",
               description_.name, text_of(ways_[w]), median(seconds_of(runs_[w])) * 1e3,
               ratios.empty() ? "-" : fmt::format("{:.3f}", median(ratios)),
               double(moved.bytes_h2d) / 1e6, double(moved.bytes_d2h) / 1e6);
  }
  return has_failed_ ? status_failed : 0;
}

}  // namespace gpufs::apps::workloads
