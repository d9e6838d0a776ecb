#include <apps/bench/bench_file.hpp>
#include <apps/bench/options.hpp>
#include <apps/common/nvme_spec.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/temp_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// An option, as it was given, and how it is if it was not.
struct option_value {
  char const* name;
  std::string given, otherwise;  ///< flags: empty if not given
};

/// Throws usage_error naming an option that was given and that `write` or `rpc` has no use for.
void check_unused_without_file(bench_options const& o) {
  bench_options const d;
  auto const flag = [](bool is_given) { return std::string(is_given ? "given" : ""); };
  std::vector<option_value> unused{
      {"--bytes", o.bytes, d.bytes},
      {"--stride", o.stride, d.stride},
      {"--baseline-threads", std::to_string(o.baseline_threads),
       std::to_string(d.baseline_threads)},
      {"--thorough", flag(o.thorough), ""},
  };
  if (o.is("rpc")) {
    unused.insert(unused.end(), {{"--file", o.file, d.file},
                                 {"--dir", o.folder, temp_folder()},
                                 {"--size", o.size, d.size},
                                 {"--req", o.request, d.request},
                                 {"--seed", std::to_string(o.seed), std::to_string(d.seed)},
                                 {"--no-limits", flag(o.no_limits), ""},
                                 {"--no-verify", flag(o.no_verify), ""}});
  }
  for (auto const& option : unused) {
    if (option.given == option.otherwise) continue;
    bool const is_flag = option.otherwise.empty() && option.given == "given";
    throw usage_error(fmt::format("{}{}: means nothing for bench {}", option.name,
                                  is_flag ? "" : "=" + option.given, o.pattern));
  }
}

/// Throws usage_error naming an option that was given and means nothing. `size`: as given.
void check_unused(bench_options const& o, std::string_view size) {
  if (o.is("rpc") || o.is("write")) {
    check_unused_without_file(o);
  } else {
    bench_file::check_folder(o.file, o.folder);
    if (!o.file.empty() && size != "0" && !bench_file::is_copy_of_drives(o.file))
      throw usage_error(
          fmt::format("--size={}: is of the temporary file, and --file={} is read", size, o.file));
    if (!bench_file::is_generated(o.file) && !o.is("rand") && o.seed != bench_options{}.seed)
      throw usage_error(
          fmt::format("--seed={}: is of a generated file, and --file={} is read", o.seed, o.file));
  }
  if (o.repeat != not_given && !o.begins_hot() && !o.is("rpc"))
    throw usage_error(fmt::format("--repeat={}: means nothing for bench {}{}", o.repeat, o.pattern,
                                  o.is("rand") ? " without --hot" : ""));
  if (o.thorough && o.no_limits)
    throw usage_error("--thorough: is of the baselines, which --no-limits leaves out");
  if (o.baseline_threads != bench_options{}.baseline_threads && o.baseline.empty())
    throw usage_error(fmt::format("--baseline-threads={}: is of --baseline", o.baseline_threads));
  if (o.theta != bench_options{}.theta && !o.zipf())
    throw usage_error(fmt::format("--theta={}: is of --distribution=zipf", o.theta));
}

}  // namespace

void add_options(CLI::App& command, bench_options& o) {
  o.folder = temp_folder();
  command
      .add_option("pattern", o.pattern,
                  "seq: each block its own part; strided: ranges in turn; rand: random ranges; "
                  "hit: all in the GPU "
                  "cache already; write: a new file, synced; rpc: empty round trips")
      ->check(CLI::IsMember({"seq", "strided", "rand", "hit", "write", "rpc"}));
  command.add_option("--file", o.file, bench_file::help);
  command.add_option("--dir,--folder", o.folder, "where the temporary file lies")
      ->capture_default_str();
  command
      .add_option("--size", o.size,
                  "size of the temporary file (1G, emulated 64M); of drives: of their copy (64M)")
      ->check(bench_file::check_size);
  command.add_option(
      "--bytes", o.bytes,
      "bytes of the file to read, from its start; rand: bytes to read in all; default: all (hit: "
      "at most half the cache)");
  command.add_option("--blocks", o.blocks, "threadblocks; default 120, emulated 8");
  command.add_option("--threads", o.threads,
                     "threads of each; default 512, emulated 64, for rpc 32");
  command.add_option("--req", o.request, "bytes per gread")->capture_default_str();
  command.add_option("--stride", o.stride,
                     "seq: bytes of each block's part; strided: distance of ranges, default --req");
  command.add_option("--seed", o.seed, "of random offsets and of a generated file")
      ->capture_default_str();
  command.add_option("--runs", o.runs, "runs; the median counts")->capture_default_str();
  command.add_option("--repeat", o.repeat,
                     "hit, rand --hot: passes in one kernel, rpc: round trips; default: so many "
                     "that it takes 80 ms, 20000");
  command
      .add_option("--access", o.access,
                  "rand: how the kernel reads: gread, gmmap, array, or async: 8 requests under way "
                  "per reader")
      ->check(CLI::IsMember({"gread", "gmmap", "array", "async"}))
      ->capture_default_str();
  command
      .add_option(
          "--distribution", o.distribution,
          "rand: uniform, or zipf: the k-th most wanted range k^-theta as often as the first")
      ->check(CLI::IsMember({"uniform", "zipf"}))
      ->capture_default_str();
  command.add_option("--theta", o.theta, "rand: exponent of zipf, above 0, at most 8")
      ->capture_default_str();
  command
      .add_option("--level", o.level, "rand: each block, or each warp, makes requests of its own")
      ->check(CLI::IsMember({"block", "warp"}))
      ->capture_default_str();
  command.add_flag("--hot", o.hot,
                   "rand: the same ranges were read once before, so that all are in the GPU cache");
  command.add_flag("--random-order", o.random_order, "write: the ranges in random order");
  command.add_flag("--once", o.once, "write: with O_GWRONCE");
  command.add_flag("--cold", o.cold, "drop the file from the OS page cache before each run");
  command.add_flag("--json", o.json, "print one JSON object");
  command.add_flag("--no-limits", o.no_limits, "do not measure limits and baselines");
  command.add_flag("--thorough", o.thorough,
                   "try 8 and 16 threads and chunks of 1 to 16 MiB for the pipelined baseline");
  command
      .add_option("--baseline", o.baseline,
                  "gpufs: let our model of GPUfs read the same file in the same run, too")
      ->check(CLI::IsMember({"gpufs"}));
  command.add_option("--baseline-threads", o.baseline_threads, "host threads of that")
      ->capture_default_str();
  command.add_flag("--no-verify", o.no_verify, "do not check the bytes against pread");
}

bench_shape shape_of(bench_options const& o) {
  auto const way = o.access == "gmmap"   ? bench_way::gmmap
                   : o.access == "array" ? bench_way::array
                   : o.access == "async" ? bench_way::async
                                         : bench_way::gread;
  return {static_cast<unsigned>(o.blocks), static_cast<unsigned>(o.threads), o.by_warp(), way};
}

config with_seats(bench_options const& o, config settings) {
  constexpr std::uint64_t most_seats = 65536;
  std::uint64_t const wanted = o.by_warp() ? std::min(shape_of(o).readers(), most_seats) : 0;
  settings.seats = static_cast<std::uint32_t>(std::max<std::uint64_t>(settings.seats, wanted));
  return settings;
}

void complete(bench_options& o) {
  if (o.pattern.empty())
    throw usage_error(
        "bench: needs a pattern (seq, strided, rand, hit, write, rpc) or a study (ratios, paper, "
        "apps, patterns, peers, nvme, mapping, bam); see gpufs bench --help");
  bool const emulated = device_to_run_on().kind == "emulated";
  fill_in(o.blocks, emulated ? 8 : 120);
  fill_in(o.threads, o.is("rpc") ? 32 : emulated ? 64 : 512);
  check_unused(o, o.size);
  if (o.size == "0" && o.file.empty()) o.size = emulated ? "64M" : "1G";
  check_option("--blocks", o.blocks, 1, 1 << 20);
  check_threads(o.threads);
  check_option("--runs", o.runs, 1, 1000);
  if (o.repeat != not_given) check_option("--repeat", o.repeat, 1, 1'000'000'000);
  (void)size_option("--req", o.request, 1, 1 << 30);
  (void)size_option("--size", o.size, 0, bench_file::largest);
  if (o.is("write") && !o.file.empty())
    throw usage_error(
        fmt::format("--file={}: bench write makes a file of its own in --dir", o.file));
  if (o.is("write") && o.threads > 512)
    throw usage_error(fmt::format("--threads={}: at most 512 for bench write", o.threads));
  if ((o.random_order || o.once) && !o.is("write"))
    throw usage_error("--random-order, --once: for bench write only");
  bool const by_gread = o.access == "gread";
  if (!o.is("rand") && (o.zipf() || o.by_warp() || o.hot || !by_gread)) {
    throw usage_error(fmt::format(
        "--distribution, --level, --hot, --access: mean nothing for bench {}", o.pattern));
  }
  if (!by_gread && o.threads > most_threads_by_warp)
    throw usage_error(fmt::format("--threads={}: at most {} with --access={}", o.threads,
                                  most_threads_by_warp, o.access));
  if (!(o.theta > 0 && o.theta <= 8))
    throw usage_error(fmt::format("--theta={}: must be above 0, at most 8", o.theta));
  if (o.by_warp() && o.threads > most_threads_by_warp) {
    throw usage_error(
        fmt::format("--threads={}: at most {} with --level=warp", o.threads, most_threads_by_warp));
  }
  if (o.by_warp() && !o.baseline.empty()) {
    throw usage_error(
        fmt::format("--baseline={}: whole blocks read there: not with --level=warp", o.baseline));
  }
  bool const reads_once = !(o.begins_hot() || o.is("write") || o.is("rpc"));
  if (o.cold && !reads_once)
    throw usage_error(fmt::format("--cold: means nothing for bench {}", o.pattern));
  if (o.cold && is_nvme_spec(o.file) && parse_nvme_spec(o.file).members.size() != 1)
    throw usage_error(fmt::format("--cold: --file={} is not one file of the host", o.file));
  check_option("--baseline-threads", o.baseline_threads, 1, 128);
  if (!o.baseline.empty() && !reads_once) {
    throw usage_error(
        fmt::format("--baseline={}: means nothing for bench {}", o.baseline, o.pattern));
  }
  if (o.is("rand") || o.is("hit")) {
    if (!o.stride.empty())
      throw usage_error(
          fmt::format("--stride={}: means nothing for bench {}", o.stride, o.pattern));
  }
}

access_plan make_plan(bench_options const& o, std::uint64_t file_bytes, config const& settings) {
  access_plan p;
  p.blocks = shape_of(o).readers();
  p.request = size_option("--req", o.request, 1, 1 << 30);
  p.seed = o.seed;
  auto const given = [](char const* option, std::string const& text, std::uint64_t most) {
    return text.empty() ? 0 : size_option(option, text, 1, most);
  };
  std::uint64_t const bytes = given("--bytes", o.bytes, o.is("rand") ? no_limit : file_bytes);
  p.bytes = bytes == 0 ? file_bytes : bytes;
  std::uint64_t const stride = given("--stride", o.stride, bench_file::largest);

  if (o.is("rand")) {
    p.pattern = access_pattern::random;
    p.bytes = file_bytes;
    if (p.request > file_bytes) {
      throw usage_error(
          fmt::format("--req={}: must be at most the file's {} bytes", o.request, file_bytes));
    }
    p.draws = std::max<std::uint64_t>((bytes == 0 ? file_bytes : bytes) / p.request, 1);
    if (o.zipf() && file_bytes / p.request >> 32 != 0) {
      throw usage_error(fmt::format(
          "--req={}: --distribution=zipf takes at most 2^32 ranges, the file has more", o.request));
    }
    if (o.access == "async" && p.request > 31 * settings.page_size) {
      throw usage_error(
          fmt::format("--req={}: gread_async reads at most 32 pages: --access=async needs {} or "
                      "less, or larger pages",
                      o.request, format_size(31 * settings.page_size)));
    }
    if (o.hot && file_bytes > settings.cache_size) {
      throw usage_error(
          fmt::format("--hot: needs a --cache-size that holds the file's {} bytes", file_bytes));
    }
    return p;
  }
  if (o.is("strided")) {
    p.pattern = access_pattern::strided;
    p.stride = stride == 0 ? p.request : stride;
    if (p.stride < p.request)
      throw usage_error(fmt::format("--stride={}: must be at least --req={}", o.stride, o.request));
    return p;
  }
  if (o.is("hit")) {
    std::uint64_t const most = settings.cache_size / settings.page_size * settings.page_size;
    if (bytes > most) {
      throw usage_error(fmt::format("--bytes={}: must be at most --cache-size={} for bench hit",
                                    o.bytes, format_size(most)));
    }
    if (bytes == 0) p.bytes = std::min(file_bytes, most / 2);
  }
  p.stride = stride == 0 ? access_plan::even_stride(p.bytes, p.request, p.blocks) : stride;
  if (stride != 0) {
    if (p.blocks > 1 && p.stride > (p.bytes - 1) / (p.blocks - 1)) {
      throw usage_error(
          fmt::format("--stride={}: {} blocks need {} or less, so that each begins within {} bytes",
                      o.stride, p.blocks, (p.bytes - 1) / (p.blocks - 1), p.bytes));
    }
    if (p.stride <= p.bytes / p.blocks) p.bytes = p.stride * p.blocks;
  }
  return p;
}

}  // namespace gpufs::apps
