#include <gpufs/device.hpp>

#include <apps/analytics/run_options.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace gpufs::apps::analytics {

namespace {

/// What --help says of --variant: of those that the program takes.
std::string help_of(std::vector<variant> const& allowed) {
  constexpr std::pair<variant, std::string_view> by_hand[] = {
      {variant::zerocopy, "from pinned memory"},
      {variant::managed, "from memory that the driver moves (CUDA only)"},
      {variant::copy, "whole files by one thread and one copy"},
      {variant::pipeline, "by 8 threads"},
      {variant::tiles, "by 8 threads"},
      {variant::memory, "the kernel alone"}};
  std::string readers, others;
  for (auto const v : allowed)
    if (uses_filesystem(v)) readers += fmt::format("{}{}", readers.empty() ? "" : ", ", name_of(v));
  for (auto const& [v, what] : by_hand)
    if (std::ranges::find(allowed, v) != allowed.end())
      others += fmt::format("{}{}: {}", others.empty() ? "" : "; ", name_of(v), what);
  return fmt::format(
      "one or several, which take turns: {}: how kernels read the files; the others are "
      "hand-written: {}",
      readers, others);
}

}  // namespace

void add_run_options(CLI::App& app, run_options& o, std::vector<variant> const& allowed) {
  app.add_option("--variant", o.variants, help_of(allowed))
      ->check(CLI::IsMember(names_of(allowed)))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--blocks", o.blocks,
                 "threadblocks; default 8 per multiprocessor, emulated 4 in all");
  app.add_option("--threads", o.threads,
                 fmt::format("threads of each, a multiple of 32 up to {}; default {}, emulated 64",
                             32 * most_warps, 32 * most_warps));
  app.add_option("--stride", o.stride,
                 "1: neighbouring warps work on neighbouring parts of the file; P: on parts that "
                 "lie P apart")
      ->capture_default_str();
  app.add_option("--runs", o.runs, "runs of each variant; the median counts")
      ->capture_default_str();
  app.add_flag(
      "--cold", o.cold,
      "drop the files from the OS page cache before each run; else they are brought there");
  app.add_option("--drives", o.drives,
                 "of those that read by gpufs: kernels read the files by NVMe commands from so "
                 "many modelled drives, 1 to 10; each has all bytes, and takes a core. 0: none")
      ->capture_default_str();
  app.add_option("--drive", o.drive, "what they behave like")
      ->check(CLI::IsMember(drive_models()))
      ->capture_default_str();
  app.add_flag("--check", o.check, "compare each result with the host's");
  app.add_flag("--json", o.json, "print a JSON object for each variant");
}

launch_shape shape_of(run_options const& o) {
  device_info const device = device_to_run_on();
  bool const emulated = device.kind == "emulated";
  std::int64_t const blocks = o.blocks != not_given ? o.blocks
                              : emulated            ? 4
                                                    : 8 * std::int64_t{device.multiprocessors};
  std::int64_t const threads = o.threads != not_given ? o.threads : emulated ? 64 : 32 * most_warps;
  check_option("--blocks", blocks, 1, 1 << 20);
  check_threads(threads, 32 * most_warps);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)};
}

bool is_by_filesystem(run_options const& o) {
  auto const reads = [](auto const& name) { return uses_filesystem(variant_named(name)); };
  return std::ranges::any_of(o.variants, reads);
}

drive_set drives_of(run_options const& o) {
  check_option("--drives", o.drives, 0, 10);
  if (o.drives != 0 && !is_by_filesystem(o))
    throw usage_error(
        fmt::format("--drives={}: is of the variants array, pointer and gread", o.drives));
  if (o.drives == 0 && o.drive != run_options{}.drive)
    throw usage_error(fmt::format("--drive={}: is of --drives", o.drive));
  return {static_cast<unsigned>(o.drives), o.drive};
}

void check_run_options(run_options const& o) {
  check_option("--runs", o.runs, 1, 1000);
  check_option("--stride", o.stride, 1, std::int64_t{1} << 32);
}

config settings_of(config settings, launch_shape const& shape) {
  constexpr std::uint64_t most_seats = 65536;
  std::uint64_t const wanted = std::min(shape.warps(), most_seats);
  settings.seats = static_cast<std::uint32_t>(std::max<std::uint64_t>(settings.seats, wanted));
  validate(settings);
  return settings;
}

}  // namespace gpufs::apps::analytics
