#include <gpufs/mapping_settings.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <host-daemon/base/say.hpp>

#include <cctype>
#include <charconv>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>

namespace gpufs::owner {

namespace {

/// The number at the start of `text`, which loses it; nothing if there is none or it does not fit.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(std::size_t(end - text.data()));
  return number;
}

}  // namespace

std::string environment_name(std::string_view key) {
  std::string name = "GPUFS_";
  for (char const c : key) name += char(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string flag_name(std::string_view key) {
  std::string name = "--";
  for (char const c : key) name += c == '_' ? '-' : c;
  return name;
}

void note_former_name(std::string_view former, std::string_view now) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> noted;
  std::lock_guard const lock(mutex);
  if (!noted.emplace(former).second) return;
  daemon::say("{} is called {} now; the former name still works", former, now);
}

namespace {

/// Letters to insert, to drop or to change so that `a` becomes `b`.
std::size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t before = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t const changed = before + (a[i] == b[j] ? 0 : 1);
      before = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

void note_similar_name(std::string_view variable) {
  std::vector<std::string> names, former;
  auto const add = [&](auto const& all) {
    for (auto const& s : all) {
      names.push_back(s.environment_name());
      if (!s.former_key.empty()) former.push_back(owner::environment_name(s.former_key));
    }
  };
  add(settings());
  add(mapping_settings());
  auto const is_it = [&](std::string const& name) { return name == variable; };
  if (std::ranges::any_of(names, is_it) || std::ranges::any_of(former, is_it)) return;
  auto const similar = std::ranges::find_if(
      names, [&](std::string const& name) { return letters_between(variable, name) <= 2; });
  if (similar == names.end()) return;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> noted;
  std::lock_guard const lock(mutex);
  if (noted.emplace(variable).second)
    daemon::say("{} is no setting and is ignored; is {} meant?", variable, *similar);
}

void reject(std::string_view origin, std::string_view value, std::string_view allowed) {
  throw config_error(fmt::format("{}={}: must be {}", origin, value, allowed));
}

std::optional<std::uint64_t> read_size(std::string_view text) {
  auto const number = take_number(text);
  if (!number) return std::nullopt;
  std::string suffix(text);
  std::ranges::transform(suffix, suffix.begin(),
                         [](unsigned char c) { return char(std::toupper(c)); });
  std::uint64_t unit = 1;
  if (!suffix.empty() && suffix != "B") {
    constexpr std::string_view units = "KMGT";
    auto const at = units.find(suffix[0]);
    if (at == units.npos) return std::nullopt;
    unit = kibi << (10 * at);
    suffix.erase(0, 1);
    if (!suffix.empty() && suffix != "B" && suffix != "IB") return std::nullopt;
  }
  if (*number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return *number * unit;
}

/// A time in milliseconds: digits, then nothing, "ms" or "s".
std::optional<std::uint64_t> read_milliseconds(std::string_view text) {
  auto const number = take_number(text);
  if (!number || !(text.empty() || text == "ms" || text == "s")) return std::nullopt;
  std::uint64_t const unit = text == "s" ? 1000 : 1;
  if (*number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return *number * unit;
}

std::optional<std::uint64_t> read_integer(std::string_view text) {
  auto const number = take_number(text);
  return text.empty() ? number : std::nullopt;
}

std::optional<std::uint64_t> read_prefetch(std::string_view text) {
  return text == "auto" ? std::optional(prefetch_automatic) : read_size(text);
}

std::string print_prefetch(std::uint64_t n) {
  return n == prefetch_automatic ? "auto" : format_size(n);
}

std::string print_integer(std::uint64_t n) { return std::to_string(n); }

}  // namespace gpufs::owner
