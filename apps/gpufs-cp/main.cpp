// gpufs-cp SRC DST: copies a file or a tree, links as `cp -a` does, with a kernel that reads and
// writes the files.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/common/drain_on_signal.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/gpufs-cp/copy_run.hpp>
#include <apps/gpufs-cp/copy_tree.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::apps;

struct options {
  std::string source, target;
  std::int64_t blocks = not_given;
  std::int64_t threads = not_given;
  std::string request = "64K";
  bool verbose = false;
};

copy_shape checked_shape(options const& o) {
  device_info const device = device_to_run_on();
  bool const emulated = device.kind == "emulated";
  std::int64_t const blocks = o.blocks != not_given ? o.blocks
                              : emulated            ? 8
                                                    : device.multiprocessors;
  std::int64_t const threads = o.threads != not_given ? o.threads : emulated ? 64 : 512;
  check_option("--blocks", blocks, 1, 1 << 20);
  check_threads(threads, 512);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
          size_option("--req", o.request, 1, 1 << 30)};
}

/// Prints the errors; returns whether there are any.
bool complain(copy_errors const& errors) {
  for (auto const& [path, what] : errors) print_error("gpufs-cp: {}: {}\n", path, what);
  return !errors.empty();
}

/// run_copy() with a progress bar, where stderr is a terminal.
std::vector<std::int32_t> copy_showing(filesystem& fs, std::vector<copied_file> const& files,
                                       std::uint64_t bytes, copy_shape const& shape) {
  progress shown(fmt::format("copying {} files", files.size()), bytes);
  auto const show = [&](std::uint64_t done) { shown.set(done); };
  return run_copy(fs, files, shape,
                  shown.visible() ? std::function<void(std::uint64_t)>(show) : nullptr);
}

int copy(options const& o, config const& settings, drain_on_signal& signals) {
  validate(settings);
  copy_shape const shape = checked_shape(o);
  if (settings.write_memory == 0)
    throw usage_error("--write-memory=0: a copy is written, so it must be more");
  if (settings.max_open_files < 2 * std::uint64_t(shape.blocks)) {
    throw usage_error(
        fmt::format("--max-open-files={}: {} blocks need {}, a source and a target each",
                    settings.max_open_files, shape.blocks, 2 * std::uint64_t(shape.blocks)));
  }
  auto const start = std::chrono::steady_clock::now();
  filesystem fs(settings);
  copy_plan plan;
  bool failed = false;
  std::uint64_t bytes = 0, copied = 0, copied_bytes = 0;
  {
    // A stopped program replaces no more targets, and leaves no files of its own.
    signals.set([&plan] { abandon_copy(plan); });
    struct at_end {
      drain_on_signal& signals;
      copy_plan& plan;
      ~at_end() {
        signals.set({});
        abandon_copy(plan);  // after an exception; else nothing is left to abandon
      }
    } const leave{signals, plan};
    prepare_copy(o.source, o.target, plan);
    failed = complain(plan.errors);
    for (auto const& f : plan.files) bytes += f.bytes;
    auto const results = copy_showing(fs, plan.files, bytes, shape);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] == 0) {
        ++copied;
        copied_bytes += plan.files[i].bytes;
        continue;
      }
      failed = true;
      print_error("gpufs-cp: {} to {}: {}\n", plan.files[i].from, plan.files[i].to,
                  error_text(results[i]));
    }
    failed |= complain(finish_copy(plan, results));
  }
  if (o.verbose) {
    double const seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} files, {} bytes, {:.3f} s, {:.3f} GB/s\n", copied, copied_bytes, seconds,
               double(copied_bytes) / seconds / 1e9);
  }
  return failed ? status_failed : 0;
}

}  // namespace

int main(int argc, char** argv) {
  drain_on_signal signals;
  CLI::App app("Copies a file or a tree with a GPU kernel; links stay links, as with cp -a",
               "gpufs-cp");
  options o;
  app.add_option("source", o.source, "file or folder to copy")->required();
  app.add_option("target", o.target,
                 "new name, or an existing folder to copy into. Existing files and links are "
                 "replaced only after the kernel is done with all files, and only if their copy is "
                 "complete and durable")
      ->required();
  app.add_option("--blocks", o.blocks, "threadblocks; default one per multiprocessor, emulated 8");
  app.add_option("--threads", o.threads, "threads of each, at most 512; default 512, emulated 64");
  app.add_option("--req", o.request, "bytes per gread and gwrite")->capture_default_str();
  app.add_flag("--verbose,-v", o.verbose, "say how much was copied, and how fast");
  cli_settings const settings(app);
  return run_program(app, argc, argv, [&] { return copy(o, settings.load(), signals); });
}
