// Options of `mosaic make` that mean nothing for its modes or its picture.
#include <apps/common/program.hpp>
#include <apps/mosaic/make_command.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gpufs::apps {

void check_given(make_options const& o) {
  make_options const unset;
  auto const has = [&](char const* mode) {
    return std::ranges::find(o.modes, mode) != o.modes.end();
  };
  bool const reads = has("gread") || has("gmmap") || has("array"), launches = reads || has("cpuio");
  auto const check = [](char const* option, auto const& value, auto const& usual, bool has_owner,
                        char const* owner) {
    if (value != usual && !has_owner)
      throw usage_error(fmt::format("{}={}: is of --mode={}", option, value, owner));
  };
  auto const check_generated = [&](char const* option, auto const& value, auto const& usual) {
    if (value != usual && !o.input.empty())
      throw usage_error(fmt::format("{}={}: is of a generated picture, and --input={} is read",
                                    option, value, o.input));
  };
  check_generated("--size", o.size, unset.size);
  check_generated("--target", o.target, unset.target);
  check_generated("--seed", o.seed, unset.seed);
  constexpr char const* readers = "gread, gmmap or array";
  constexpr char const* launchers = "gread, gmmap, array or cpuio";
  check("--hist-page-size", fmt::format("{}", fmt::join(o.page_sizes, ",")), "", reads, readers);
  check("--advice", o.advice, unset.advice, reads, readers);
  check("--level", o.level, unset.level, launches, launchers);
  check("--blocks", o.blocks, unset.blocks, launches, launchers);
  check("--threads", o.threads, unset.threads, launches, launchers);
  check("--host-reads", o.host_reads, unset.host_reads, has("cpu"), "cpu");
}

}  // namespace gpufs::apps
