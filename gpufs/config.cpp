// The table of settings, and the layers that fill a config: file, environment, validation.
#include <gpufs/config.hpp>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace gpufs {
namespace {

constexpr std::uint64_t kibi = 1ull << 10, mebi = 1ull << 20, gibi = 1ull << 30, tebi = 1ull << 40;

[[noreturn]] void reject(std::string_view origin, std::string_view value,
                         std::string_view allowed) {
  throw config_error(fmt::format("{}={}: must be {}", origin, value, allowed));
}

/// The number at the start of `text`, which loses it; nothing if there is none or it does not fit.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(std::size_t(end - text.data()));
  return number;
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
template <class Number, class Read>
setting number(std::string_view key, std::string_view help, Number config::*member, Read read,
               std::string (*write)(std::uint64_t), range allowed, std::string_view allowed_text) {
  return {.key = key,
          .help = help,
          .assign =
              [=](config& c, std::string_view value, std::string_view origin) {
                auto const n = read(value);
                if (!n || !allowed.contains(*n)) reject(origin, value, allowed_text);
                c.*member = Number(*n);
              },
          .print = [=](config const& c) { return write(c.*member); }};
}

setting size(std::string_view key, std::string_view help, std::uint64_t config::*member,
             range allowed, std::string_view allowed_text) {
  return number(key, help, member, read_size, format_size, allowed, allowed_text);
}

setting count(std::string_view key, std::string_view help, std::uint32_t config::*member,
              range allowed, std::string_view allowed_text) {
  return number(key, help, member, read_integer, print_integer, allowed, allowed_text);
}

template <class Enum>
using names = std::vector<std::pair<std::string_view, Enum>>;

template <class Enum>
setting choice(std::string_view key, std::string_view help, Enum config::*member,
               names<Enum> const& values) {
  std::string allowed = "one of";
  for (auto const& [name, value] : values) allowed += fmt::format(" {}", name);
  return {.key = key,
          .help = help,
          .assign =
              [=](config& c, std::string_view text, std::string_view origin) {
                auto const found =
                    std::ranges::find(values, text, [](auto const& entry) { return entry.first; });
                if (found == values.end()) reject(origin, text, allowed);
                c.*member = found->second;
              },
          .print = [=](config const& c) -> std::string {
            auto const found = std::ranges::find(values, c.*member,
                                                 [](auto const& entry) { return entry.second; });
            return found == values.end() ? fmt::format("{}", int(c.*member))
                                         : std::string(found->first);
          }};
}

std::vector<setting> make_settings() {
  return {
      size("page_size", "bytes per page of the cache, a power of two from 512 to 4M",
           &config::page_size, {.low = 512, .high = 4 * mebi, .power_of_two = true},
           "a power of two from 512 to 4194304"),
      size("cache_size", "bytes of GPU memory for pages, at least 8 pages", &config::cache_size,
           {.low = 4096, .high = 16 * tebi}, "a size from 4K to 16T"),
      number("prefetch_size",
             "bytes read ahead after each missing page, a multiple of page_size; 0 = off; auto = "
             "as the reads show",
             &config::prefetch_size, read_prefetch, print_prefetch,
             {.low = 0, .high = 512 * mebi, .also = prefetch_automatic},
             "auto, 0 or a size up to 512M"),
      count("prefetch_depth",
            "with a fixed prefetch_size: requests on their way beyond the one being consumed, 0 to "
            "16",
            &config::prefetch_depth, {.low = 0, .high = 16}, "a number from 0 to 16"),
      size("prefetch_memory",
           "bytes of pinned host memory for prefetch buffers, a multiple of 4096",
           &config::prefetch_memory, {.low = 64 * kibi, .high = tebi, .multiple_of = 4096},
           "a multiple of 4096 from 64K to 1T"),
      count("host_threads", "threads that serve requests, 1 to 256; 0 = cores less two, at most 14",
            &config::host_threads, {.low = 0, .high = 256},
            "a number from 1 to 256, or 0 for one per core less two"),
      choice<io_backend>("io_backend", "how the host reads files: auto, uring or pread",
                         &config::backend,
                         {{"auto", io_backend::automatic},
                          {"uring", io_backend::uring},
                          {"pread", io_backend::pread}}),
      choice<io_path>("io_path", "how bytes reach GPU memory: auto, pull, direct, dma or mapped",
                      &config::path,
                      {{"auto", io_path::automatic},
                       {"pull", io_path::pull},
                       {"dma", io_path::dma},
                       {"direct", io_path::direct},
                       {"mapped", io_path::mapped}}),
      choice<replacement>(
          "replacement", "which page makes room for a new one: lra, fifo or clock", &config::policy,
          {{"lra", replacement::lra}, {"fifo", replacement::fifo}, {"clock", replacement::clock}}),
      number("rpc_timeout",
             "longest wait of a kernel for the host, 1ms to 1h; in milliseconds, or with suffix ms "
             "or s",
             &config::rpc_timeout_ms, read_milliseconds, print_integer,
             {.low = 1, .high = 3600'000},
             "a time from 1 to 3600000 milliseconds, such as 500, 500ms or 10s"),
      number("dma_timeout",
             "io_path=dma: longest time without progress before kernels pull instead, 1ms to 60s",
             &config::dma_timeout_ms, read_milliseconds, print_integer, {.low = 1, .high = 60'000},
             "a time from 1 to 60000 milliseconds, such as 3, 3ms or 1s"),
      size("staging_size",
           "bytes of pinned host memory that data passes through, a multiple of 4096",
           &config::staging_size, {.low = 64 * kibi, .high = tebi, .multiple_of = 4096},
           "a multiple of 4096 from 64K to 1T"),
      size("write_memory",
           "bytes of pinned host memory for dirty pages, a multiple of 4096; 0 = files cannot be "
           "written",
           &config::write_memory, {.low = 0, .high = tebi, .multiple_of = 4096},
           "a multiple of 4096 up to 1T"),
      size("window_size",
           "bytes of a file mapped for the GPU together, a power of two from 64K to 1G, at least "
           "page_size",
           &config::window_size, {.low = 64 * kibi, .high = gibi, .power_of_two = true},
           "a power of two from 64K to 1G"),
      size("mapped_memory",
           "io_path=mapped, auto: most bytes of files mapped at once, at least window_size; 0 = "
           "none; auto: and a quarter of the "
           "host's memory",
           &config::mapped_memory, {.low = 0, .high = tebi}, "a size up to 1T"),
      count("pulls_in_flight",
            "warps that pull from host memory at once, up to 4K each, 1 to 65536",
            &config::pulls_in_flight, {.low = 1, .high = 65536}, "a number from 1 to 65536"),
      count("max_open_files", "files open at once, 1 to 65536", &config::max_open_files,
            {.low = 1, .high = 65536}, "a number from 1 to 65536"),
      count("context_slots",
            "threadblocks that own a prefetch buffer and a replacement queue at once, 1 to 65536",
            &config::context_slots, {.low = 1, .high = 65536}, "a number from 1 to 65536"),
  };
}

setting const* find(std::string_view key) {
  auto const found = std::ranges::find(settings(), key, &setting::key);
  return found == settings().end() ? nullptr : &*found;
}

std::string toml_text(toml::node const& node, std::string const& origin) {
  if (auto const* integer = node.as_integer()) return std::to_string(integer->get());
  if (auto const* text = node.as_string()) return text->get();
  throw config_error(fmt::format("{}: must be an integer or a string such as \"64K\"", origin));
}

}  // namespace

std::string setting::environment_name() const {
  std::string name = "GPUFS_";
  for (char const c : key) name += char(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string setting::flag() const {
  std::string name = "--";
  for (char const c : key) name += c == '_' ? '-' : c;
  return name;
}

std::vector<setting> const& settings() {
  static std::vector<setting> const all = make_settings();
  return all;
}

std::uint64_t parse_size(std::string_view text, std::string_view origin) {
  auto const bytes = read_size(text);
  if (!bytes)
    reject(
        origin, text,
        "a size below 16777216T: digits, and K, M, G or T after them where wanted (64K, 2M, 1G)");
  return *bytes;
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<std::pair<std::uint64_t, char>, 4> units{
      {{tebi, 'T'}, {gibi, 'G'}, {mebi, 'M'}, {kibi, 'K'}}};
  for (auto const& [unit, letter] : units) {
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  }
  return std::to_string(bytes);
}

void load_file(config& c, std::filesystem::path const& file) {
  toml::table table;
  try {
    table = toml::parse_file(file.string());
  } catch (toml::parse_error const& error) {
    throw config_error(
        fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
  }
  for (auto const& [key, node] : table) {
    std::string const origin =
        fmt::format("{}:{}: {}", file.string(), node.source().begin.line, key.str());
    auto const* const found = find(key.str());
    if (found == nullptr) {
      std::string known;
      for (auto const& s : settings())
        known += fmt::format("{}{}", known.empty() ? "" : ", ", s.key);
      throw config_error(fmt::format("{}: no such setting; there are {}", origin, known));
    }
    found->assign(c, toml_text(node, origin), origin);
  }
}

void load_environment(config& c) {
  for (auto const& s : settings()) {
    std::string const name = s.environment_name();
    if (char const* value = std::getenv(name.c_str())) s.assign(c, value, name);
  }
}

config load_config(config defaults) {
  if (char const* named = std::getenv("GPUFS_CONFIG")) {
    if (!std::filesystem::is_regular_file(named))
      reject("GPUFS_CONFIG", named, "the path of a TOML file");
    load_file(defaults, named);
  } else if (std::filesystem::exists("gpufs.toml")) {
    if (!std::filesystem::is_regular_file("gpufs.toml"))
      throw config_error("gpufs.toml: must be a file, or not there");
    load_file(defaults, "gpufs.toml");
  }
  load_environment(defaults);
  return defaults;
}

void validate(config const& c) {
  // A value that was set in code passes the same check as its text would.
  config checked;
  for (auto const& s : settings()) s.assign(checked, s.print(c), s.key);

  if (c.cache_size / c.page_size < 8) {
    reject("cache_size", format_size(c.cache_size),
           fmt::format("at least 8 pages, {} with page_size={}", format_size(8 * c.page_size),
                       format_size(c.page_size)));
  }
  bool const fixed = c.prefetch_size != prefetch_automatic;
  if (fixed && c.prefetch_size % c.page_size != 0) {
    reject("prefetch_size", format_size(c.prefetch_size),
           fmt::format("a multiple of page_size={}", format_size(c.page_size)));
  }
  if (c.page_size > c.staging_size / 8) {
    reject("staging_size", format_size(c.staging_size),
           fmt::format("at least {}, 8 times page_size={}", format_size(8 * c.page_size),
                       format_size(c.page_size)));
  }
  if (std::uint64_t const request = c.page_size + c.prefetch_size;
      fixed && c.prefetch_size != 0 && request > c.prefetch_memory / 8) {
    reject("prefetch_memory", format_size(c.prefetch_memory),
           fmt::format("at least {}: 8 times page_size={} plus prefetch_size={}",
                       format_size(8 * request), format_size(c.page_size),
                       format_size(c.prefetch_size)));
  }
  bool const maps = files_to_map(c) != mapped_files::none;
  if (maps && c.window_size < c.page_size) {
    reject("window_size", format_size(c.window_size),
           fmt::format("at least page_size={}", format_size(c.page_size)));
  }
  if (maps && c.mapped_memory < c.window_size) {
    reject("mapped_memory", format_size(c.mapped_memory),
           fmt::format("0, or at least window_size={}", format_size(c.window_size)));
  }
}

}  // namespace gpufs
