// The kinds of settings: how text becomes a value, how a value becomes text, and what is allowed.
#pragma once

#include <gpufs/config.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpufs::owner {

inline constexpr std::uint64_t kibi = 1ull << 10, mebi = 1ull << 20, gibi = 1ull << 30,
                               tebi = 1ull << 40;

/// How a key is written elsewhere: GPUFS_PAGE_SIZE, --page-size.
[[nodiscard]] std::string environment_name(std::string_view key);
[[nodiscard]] std::string flag_name(std::string_view key);

/// Says on stderr that `former` is called `now`, once per process and name.
void note_former_name(std::string_view former, std::string_view now);

/// Says on stderr that `variable` is no setting but looks like one, once per process and name, if
/// it differs from the variable of a setting by at most two letters.
void note_similar_name(std::string_view variable);

/// Throws config_error: "ORIGIN=VALUE: must be ALLOWED".
[[noreturn]] void reject(std::string_view origin, std::string_view value, std::string_view allowed);

/// Text to value. Each returns nothing for text that is no such value, or does not fit.
[[nodiscard]] std::optional<std::uint64_t> read_size(std::string_view text);
/// Milliseconds: digits, then nothing, "ms" or "s".
[[nodiscard]] std::optional<std::uint64_t> read_milliseconds(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> read_integer(std::string_view text);
/// A size, or `auto`.
[[nodiscard]] std::optional<std::uint64_t> read_prefetch(std::string_view text);

/// Value to text that the function above takes back.
[[nodiscard]] std::string print_prefetch(std::uint64_t n);
[[nodiscard]] std::string print_integer(std::uint64_t n);

struct range {
  std::uint64_t low, high;
  std::uint64_t multiple_of = 1;
  bool power_of_two = false;
  std::uint64_t also = low;  ///< one more value that is allowed

  [[nodiscard]] bool contains(std::uint64_t n) const {
    if (n == also) return true;
    return n >= low && n <= high && n % multiple_of == 0 &&
           (!power_of_two || std::has_single_bit(n));
  }
};

/// A numeric setting: `read` turns text into the value, `write` prints it so that `read` takes it
/// back.
template <class Config, class Number, class Read>
basic_setting<Config> number(std::string_view key, std::string_view help, Number Config::*member,
                             Read read, std::string (*write)(std::uint64_t), range allowed,
                             std::string_view allowed_text) {
  return {.key = key,
          .help = help,
          .assign =
              [=](Config& c, std::string_view value, std::string_view origin) {
                auto const n = read(value);
                if (!n || !allowed.contains(*n)) reject(origin, value, allowed_text);
                c.*member = Number(*n);
              },
          .print = [=](Config const& c) { return write(c.*member); }};
}

template <class Config>
basic_setting<Config> size(std::string_view key, std::string_view help,
                           std::uint64_t Config::*member, range allowed,
                           std::string_view allowed_text) {
  return number(key, help, member, read_size, format_size, allowed, allowed_text);
}

template <class Config>
basic_setting<Config> count(std::string_view key, std::string_view help,
                            std::uint32_t Config::*member, range allowed,
                            std::string_view allowed_text) {
  return number(key, help, member, read_integer, print_integer, allowed, allowed_text);
}

/// A setting that its default serves, but for tests and measurements.
template <class Config>
basic_setting<Config> expert(basic_setting<Config> s) {
  s.is_expert = true;
  return s;
}

/// Any text. It must not have a zero byte.
template <class Config>
basic_setting<Config> text(std::string_view key, std::string_view help,
                           std::string Config::*member) {
  return {.key = key,
          .help = help,
          .assign =
              [=](Config& c, std::string_view value, std::string_view origin) {
                if (value.find('\0') != value.npos)
                  reject(origin, "...", "text without zero bytes");
                c.*member = value;
              },
          .print = [=](Config const& c) { return c.*member; }};
}

/// Values that had another name before: the former name, and today's. Both are taken.
using former_names = std::vector<std::pair<std::string_view, std::string_view>>;

template <class Enum>
using names = std::vector<std::pair<std::string_view, Enum>>;

template <class Enum, class Config>
basic_setting<Config> choice(std::string_view key, std::string_view help, Enum Config::*member,
                             names<Enum> const& values, former_names const& former = {}) {
  std::string allowed = "one of";
  for (auto const& [name, value] : values) allowed += fmt::format(" {}", name);
  return {.key = key,
          .help = help,
          .assign =
              [=](Config& c, std::string_view text, std::string_view origin) {
                for (auto const& [then, now] : former) {
                  if (text != then) continue;
                  note_former_name(fmt::format("{}={}", origin, then),
                                   fmt::format("{}={}", origin, now));
                  text = now;
                }
                auto const found =
                    std::ranges::find(values, text, [](auto const& entry) { return entry.first; });
                if (found == values.end()) reject(origin, text, allowed);
                c.*member = found->second;
              },
          .print = [=](Config const& c) -> std::string {
            auto const found = std::ranges::find(values, c.*member,
                                                 [](auto const& entry) { return entry.second; });
            return found == values.end() ? fmt::format("{}", int(c.*member))
                                         : std::string(found->first);
          }};
}

}  // namespace gpufs::owner
