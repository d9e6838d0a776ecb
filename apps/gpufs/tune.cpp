#include <apps/bench/bench.hpp>
#include <apps/bench/bench_file.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/nvme_spec.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/gpufs/tune.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace gpufs::apps {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t mebi = 1 << 20;
constexpr std::uint64_t most_bytes = 2048 * mebi;  // of a trial: more tells no more

/// The files that are never written to.
std::vector<std::string> files_of(tune_options const& o) {
  return is_nvme_spec(o.file) ? parse_nvme_spec(o.file).members : std::vector<std::string>{o.file};
}

/// The size of the file. The program opens the file for reading only.
std::uint64_t size_of(std::string const& path) {
  std::uint64_t size = 0;
  if (is_nvme_spec(path)) return bench_file(path, temp_folder(), 0, 0)->size();
  try {
    size = host_file(path).size();
  } catch (std::system_error const& e) {
    throw usage_error(fmt::format("{}: {}", path, e.code().message()));
  }
  if (size == 0) throw usage_error(fmt::format("{}: is empty", path));
  return size;
}

std::vector<coordinate> coordinates() {
  std::vector<coordinate> all;
  all.push_back({"page_size", [](config const&) {
                   return std::vector<std::string>{"4K", "16K", "64K", "256K", "1M"};
                 }});
  all.push_back({"prefetch_size", [](config const& c) {
                   // Requests of 64K, 256K and 1M in all, as the GPUfs readahead paper counts them.
                   std::vector<std::string> values{"auto", "0"};
                   for (std::uint64_t const request : {mebi / 16, mebi / 4, mebi}) {
                     if (request > c.page_size)
                       values.push_back(format_size(request - c.page_size));
                   }
                   return values;
                 }});
  all.push_back({"io_path", [](config const&) {
                   return std::vector<std::string>{"pull", "dma", "direct", "registered"};
                 }});
  all.push_back({"host_threads", [](config const&) {
                   std::vector<std::string> values;
                   unsigned const cores = std::max(std::thread::hardware_concurrency(), 1u);
                   for (unsigned n = 1; n < cores; n *= 2) values.push_back(std::to_string(n));
                   if (cores > 6) values.push_back(std::to_string(cores - 2));
                   values.push_back(std::to_string(cores));
                   return values;
                 }});
  return all;
}

/// What all trials have in common.
bench_options trial_options(tune_options const& o) {
  bench_options b;
  b.pattern = o.pattern;
  b.file = o.file;
  b.folder = temp_folder();  // of the copy of a block file
  b.request = o.request;
  b.blocks = o.blocks;
  b.threads = o.threads;
  b.cold = o.cold;
  b.runs = 1;
  b.no_limits = true;
  b.no_verify = true;
  b.quiet = true;
  complete(b);
  return b;
}

std::vector<double> speeds(bench_result const& r) {
  std::vector<double> all;
  for (double const s : r.seconds) all.push_back(gigabytes_per_second(r.bytes(), s));
  return all;
}

/// Measures a configuration: once if that shows it to be far behind, else three times.
run_scores measure(bench_options b, config const& c, double best) {
  b.runs = 1;
  auto all = speeds(run_bench(b, c));
  if (all.front() < 0.8 * best) return scores_of(all);
  b.runs = 2;
  for (double const s : speeds(run_bench(b, c))) all.push_back(s);
  return scores_of(all);
}

/// The bytes for one run of about `seconds`, by the rate of a short one. A run takes a fiftieth of
/// the time limit. So about thirty trials of one to three runs fit in.
std::uint64_t bytes_per_trial(bench_options b, config const& c, std::uint64_t file_bytes,
                              double seconds) {
  std::uint64_t const least =
      std::min(file_bytes, std::max(size_option("--req", b.request, 1, 1 << 30), 4 * mebi));
  b.bytes = std::to_string(least);
  auto const begun = clock::now();
  bench_result const r = run_bench(b, c);
  double const reading = std::max(r.seconds.front(), 1e-6);
  double const around_it =
      seconds_since(begun) - reading;  // making a filesystem takes its time, too
  double const share = std::max(seconds - around_it, seconds / 4) / reading;
  return std::clamp(static_cast<std::uint64_t>(std::min(share, 1e6) * static_cast<double>(least)),
                    least, std::max(least, std::min(file_bytes, most_bytes)));
}

}  // namespace

void add_options(CLI::App& command, tune_options& o) {
  command.footer(
      "Coordinate descent: starting from the settings given, page_size, prefetch_size, io_path and "
      "host_threads are tried\n"
      "through one after the other while the rest stay at the best values so far, again and again "
      "until nothing gains 2 %\n"
      "and more than the runs of one setting differ, or the time is up. A setting that is given on "
      "the command line keeps its\n"
      "value. FILE is only read. The bytes that the best settings deliver are compared with what "
      "pread gives. If gpufs\n"
      "has the best settings already, nothing is written.");
  command.add_option("file", o.file, "file to read, or a block file as for gpufs bench")
      ->type_name("FILE");
  command.add_option("--time", o.time, "longest time to search, such as 90, 90s, 2m or 1h")
      ->capture_default_str();
  add_options(command, o.output);
  command
      .add_option("--pattern", o.pattern,
                  "how kernels read: seq, strided or rand, as gpufs bench does")
      ->check(CLI::IsMember({"seq", "strided", "rand"}))
      ->capture_default_str();
  command.add_option("--req", o.request, "bytes per gread")->capture_default_str();
  command.add_option("--blocks", o.blocks, "threadblocks; default 120, emulated 8");
  command.add_option("--threads", o.threads, "threads of each; default 512, emulated 64");
  command.add_flag("--cold", o.cold, "drop the file from the OS page cache before each run");
}

int run_tune(tune_options const& o, config const& start,
             std::function<bool(std::string_view)> const& fixed) {
  auto const begun = clock::now();
  auto const limit = double(seconds_option("--time", o.time, 24));
  validate(start);
  if (o.file.empty()) throw usage_error("file is required, or --mapping for shared memory");
  tune_result r;
  r.file_bytes = size_of(o.file);
  check(o.output, files_of(o));
  bench_options b = trial_options(o);
  auto along = coordinates();
  std::erase_if(along, [&](coordinate const& c) { return fixed(c.key); });

  {
    progress shown("", static_cast<std::uint64_t>(limit * 1000));
    unsigned number = 0;
    auto const timed = [&](config const& c, double best) {
      shown.set(static_cast<std::uint64_t>(seconds_since(begun) * 1000));
      shown.say(
          fmt::format("{:.2f} GB/s; trial {}: {}", best, ++number, describe(c, keys_tuned())));
      return measure(b, c, best);
    };
    shown.say("how fast is it at all?");
    r.bytes = bytes_per_trial(b, start, r.file_bytes, limit / 50);
    b.bytes = std::to_string(r.bytes);
    r.found = descend(start, along, timed, [&] { return seconds_since(begun) < limit; });

    shown.say("checking the bytes against pread");
    b.runs = 1;
    b.no_verify = false;
    bench_result const checked = run_bench(b, r.found.trials[r.found.best].settings);
    if (!checked.verified)
      throw std::runtime_error(fmt::format("{}: {}", o.file, checked.mismatch));
    r.verified_requests = checked.checked;
  }
  r.seconds = seconds_since(begun);
  print(o, r);
  write(o.output, to_toml(o, r));
  return 0;
}

}  // namespace gpufs::apps
