// Settings as text: gpufs.toml, environment variables, values of options. Whatever the text is, it
// is taken or refused with the documented exception. What is taken, is printed so that it is read
// back the same, and what validate() accepts has a layout.
#include <gpufs/config.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <apps/common/program.hpp>
#include <apps/harness/extras.hpp>
#include <test/fuzz/input.hpp>

#include <cstdlib>
#include <string>

using namespace gpufs;
using fuzz::require;

namespace {

void check_text_forms(config const& c) {
  config again;
  for (auto const& s : settings()) {
    s.assign(again, s.print(c), s.key);
    require(s.print(again) == s.print(c), "a setting is printed so that it is read back the same");
  }
}

void check_layout(config const& c) {
  try {
    validate(c);
  } catch (config_error const&) {
    return;
  }
  unsigned const threads = c.host_threads == 0 ? 14 : c.host_threads;
  for (std::uint64_t const memory : {1ull << 30, 1ull << 46}) {
    auto const l = owner::layout::of(c, threads, memory);
    require(l.frames >= 8 && l.frames <= 1ull << 31, "8 frames, at most 2^31");
    require(l.rings * l.ring_slots >= l.channels, "each channel finds a slot");
    require(l.page_channels * l.page_piece + l.chunk_channels * l.chunk_piece < l.staging_bytes,
            "staging has room for all pieces");
    require(l.write_buffers <= l.frames / 2, "at most half of the frames are dirty");
    require(l.segments * l.segment_frames >= l.frames, "segments cover the frames");
    require(l.window_budget == 0 || l.window_budget >= c.file_window_size, "a window at least");
  }
}

template <class Load>
void take_settings(Load const& load) {
  config c;
  try {
    load(c);
  } catch (config_error const&) {
  }
  check_text_forms(c);
  check_layout(c);
}

// Lines KEY=VALUE, each an environment variable.
void from_environment(fuzz::input in) {
  for (auto const& s : settings()) {
    ::unsetenv(s.environment_name().c_str());
    if (!s.former_key.empty()) ::unsetenv(owner::environment_name(s.former_key).c_str());
  }
  while (!in.empty()) {
    std::string const line(in.line());
    auto const equals = line.find('=');
    if (equals == 0 || equals == line.npos || line.find('\0') != line.npos) continue;
    std::string const name = "GPUFS_" + line.substr(0, equals);
    if (name != "GPUFS_CONFIG") ::setenv(name.c_str(), line.c_str() + equals + 1, 1);
  }
  take_settings([](config& c) { load_environment(c); });
}

// Lines KEY=VALUE, each as a setting's own text.
void from_values(fuzz::input in) {
  config c;
  while (!in.empty()) {
    auto const line = in.line();
    auto const equals = line.find('=');
    for (auto const& s : settings()) {
      if (s.key != line.substr(0, equals)) continue;
      take_settings([&](config& out) {
        s.assign(c, line.substr(std::min(line.size(), equals + 1)), s.flag());
        out = c;
      });
    }
  }
}

void take_options(fuzz::input in) {
  while (!in.empty()) {
    std::string const text(in.line());
    try {
      auto const bytes = parse_size(text, "--size");
      require(parse_size(format_size(bytes), "") == bytes, "a size is read back the same");
      auto const some = apps::size_option("--size", text, 512, 1 << 20);
      require(some == bytes && some >= 512 && some <= 1 << 20, "a size in its bounds");
    } catch (config_error const&) {
    } catch (apps::usage_error const&) {
    }
    try {
      auto const seconds = apps::seconds_option("--time", text, 24);
      require(seconds >= 1 && seconds <= 24 * 3600, "a time in its bounds");
    } catch (apps::usage_error const&) {
    }
    apps::problem p{};
    p.extras["number"] = text;
    try {
      auto const n = apps::number_option(p, "number", 3, 70'000);
      require(n >= 3 && n <= 70'000, "a number in its bounds");
      require(std::to_string(n).size() <= text.size(), "a number has its digits");
    } catch (apps::usage_error const&) {
    }
    try {
      require(apps::choice_option(p, "number", {"warp", "block"}) < 2, "one of two");
    } catch (apps::usage_error const&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::input in{data, size};
  auto const kind = in.line();
  if (kind == "environment") {
    from_environment(in);
  } else if (kind == "values") {
    from_values(in);
  } else if (kind == "options") {
    take_options(in);
  } else {
    auto const path = fuzz::put_file("gpufs.toml", in.rest());
    take_settings([&](config& c) { load_file(c, path); });
  }
  return 0;
}
