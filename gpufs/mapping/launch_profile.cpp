#include <gpufs/mapping/launch_profile.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace gpufs::shared {

namespace {

constexpr std::string_view heading =
    "# Parts of 2 MiB of objects that launches touch, found by gpufs with backing = managed.\n"
    "# Number of the object in the call, its bytes, the parts, the name of the launch.\n";

/// A number at the begin of `text`, and takes it away.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(std::size_t(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

/// "3-5,9", and takes it away. Units of an object of `units`.
std::optional<block_runs> take_runs(std::string_view& text, std::uint64_t units) {
  block_runs runs;
  do {
    auto const first = take_number(text);
    auto const last = first && take(text, '-') ? take_number(text) : first;
    if (!first || !last || *last < *first || *last >= units) return std::nullopt;
    runs.add({*first, *last + 1});
  } while (take(text, ','));
  return runs;
}

std::string text_of(block_runs const& units) {
  std::string text;
  units.for_each([&](block_run r) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", r.first);
    if (r.end - r.first > 1) text += fmt::format("-{}", r.end - 1);
  });
  return text;
}

}  // namespace

bool is_launch_name(std::string_view name) {
  constexpr std::size_t most = 200;
  return !name.empty() && name.size() <= most && std::ranges::none_of(name, [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
  });
}

block_runs const* launch_profile::find(profiled_object const& of) const {
  auto const found = all_.find(of);
  return found == all_.end() ? nullptr : &found->second;
}

bool launch_profile::add(profiled_object const& of, block_run units) {
  auto& known = all_[of];
  auto const there = known.within(units);
  if (there.size() == 1 && there.front() == units) return false;
  known.add(units);
  return true;
}

bool launch_profile::add(launch_profile const& other) {
  bool is_new = false;
  for (auto const& [of, units] : other.all_)
    for (auto const& run : units.runs()) is_new = add(of, run) || is_new;
  return is_new;
}

std::string launch_profile::text() const {
  std::string text(heading);
  for (auto const& [of, units] : all_)
    text += fmt::format("{} {} {} {}\n", of.number, of.bytes, text_of(units), of.launch);
  return text;
}

std::size_t launch_profile::read(std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    auto const object = take_number(line);
    auto const bytes = object && take(line, ' ') ? take_number(line) : std::nullopt;
    if (!bytes || !take(line, ' ')) return number;
    auto const units = take_runs(line, *bytes / profile_unit + (*bytes % profile_unit != 0));
    if (!units || !take(line, ' ') || !is_launch_name(line)) return number;
    for (auto const& run : units->runs()) add({std::string(line), *object, *bytes}, run);
  }
  return 0;
}

}  // namespace gpufs::shared
