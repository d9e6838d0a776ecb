#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>
#include <gpufs/device.hpp>

#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/harness/picture_file.hpp>
#include <apps/harness/program.hpp>
#include <apps/harness/session.hpp>
#include <apps/harness/verify.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

namespace {

struct options {
  std::string mode = "gread";
  std::string size = "smoke";
  std::string generator = "rand";
  std::uint64_t seed = 42;
  std::string data;
  std::string output;
  std::string input;
  std::int64_t blocks = not_given;
  std::int64_t threads = not_given;
  std::string request = "64K";
  std::int64_t runs = 1;
  bool cold = false;
  bool check = false;
  bool json = false;
  std::map<std::string, std::string> extras;
};

void add_options(CLI::App& app, options& o, port_description const& what) {
  std::vector<std::string> modes{"cpu", "cpuio", "pipelined", "gread"};
  if (what.fused) modes.emplace_back("fused");
  app.add_option("--mode", o.mode, "how the input is read and where the work is done")
      ->check(CLI::IsMember(modes))
      ->capture_default_str();
  app.add_option("--size", o.size,
                 "size of the input: paper is that of the GPUfs readahead paper, Table 1")
      ->check(CLI::IsMember({"smoke", "medium", "paper"}))
      ->capture_default_str();
  app.add_option("--gen", o.generator, "input by the suite's own formula, or random")
      ->check(CLI::IsMember({"paper", "rand"}))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of the random input")->capture_default_str();
  app.add_option(
      "--data", o.data,
      "keep the generated files in this folder, or take them from there; default: nameless "
      "temporary files");
  if (!what.real_input.empty()) {
    app.add_option("--input", o.input,
                   fmt::format("a real file in place of a generated one: {}", what.real_input));
  }
  if (what.pictures)
    app.add_option("--output", o.output, "write the result as PNG into this folder");
  app.add_option("--blocks", o.blocks, "threadblocks of the I/O kernel")->capture_default_str();
  app.add_option("--threads", o.threads,
                 "threads of each, a multiple of 32, at most 512; default 512, emulated 64");
  app.add_option("--req", o.request, "bytes per gread of the I/O kernel")->capture_default_str();
  app.add_option("--runs", o.runs, "runs, each with an empty GPU cache; the median counts")
      ->capture_default_str();
  app.add_flag("--cold", o.cold, "drop the input from the OS page cache before each run");
  app.add_flag("--check", o.check,
               "check the bytes, then the outputs against --mode cpuio and against the host's");
  app.add_flag("--json", o.json, "print one JSON object");
  for (auto const& e : what.extras) {
    o.extras[e.name] = e.value;
    app.add_option("--" + e.name, o.extras[e.name], e.help)->capture_default_str();
  }
}

/// Throws usage_error naming an option that was given and means nothing.
void check_given(options const& o, port_description const& what) {
  options unset;
  unset.blocks = what.blocks;
  auto const check = [](char const* option, auto const& value, auto const& usual, bool has_owner,
                        std::string const& owner) {
    if (value != usual && !has_owner)
      throw usage_error(fmt::format("{}={}: is of {}", option, value, owner));
  };
  bool const is_generated = o.input.empty();
  std::string const generated = "generated input, and --input=" + o.input + " is read";
  check("--size", o.size, unset.size, is_generated, generated);
  check("--gen", o.generator, unset.generator, is_generated, generated);
  check("--seed", o.seed, unset.seed, is_generated, generated);
  bool const is_random = o.generator == "rand" || !what.has_formula;
  check("--seed", o.seed, unset.seed, is_random, "--gen=rand");
  bool const is_by_io_kernel = o.mode == "gread" || o.mode == "fused";
  std::string const owner = what.fused ? "--mode=gread or fused" : "--mode=gread";
  check("--blocks", o.blocks, unset.blocks, is_by_io_kernel, owner);
  check("--threads", o.threads, unset.threads, is_by_io_kernel, owner);
  check("--req", o.request, unset.request, is_by_io_kernel, owner);
}

problem problem_of(options const& o) {
  problem p;
  p.size = o.size == "smoke"    ? size_class::smoke
           : o.size == "medium" ? size_class::medium
                                : size_class::paper;
  p.random = o.generator == "rand";
  p.seed = o.seed;
  p.extras = o.extras;
  p.input = o.input;
  return p;
}

io_shape shape_of(options const& o) {
  check_option("--blocks", o.blocks, 1, 65535);
  std::int64_t threads = o.threads;
  fill_in(threads, device_to_run_on().kind == "emulated" ? 64 : 512);
  check_threads(threads, 512);
  return {static_cast<unsigned>(o.blocks), static_cast<unsigned>(threads),
          size_option("--req", o.request, 512, 1ull << 30)};
}

struct outcome {
  run_times times;               // the median run
  std::optional<double> pinned;  // cpuio: the same through pinned memory, I/O seconds
  verdict checked;
  std::uint64_t bytes = 0;
};

/// One thread reads the files, then the host's threads compute.
run_times run_on_host(session& s, host_outputs& out) {
  auto const start = std::chrono::steady_clock::now();
  std::vector<std::vector<std::byte>> memory;
  host_inputs in;
  for (auto const& f : s.data().files()) {
    auto& bytes = memory.emplace_back(f.file.size());
    f.file.read(bytes.data(), bytes.size(), 0);
    in.files.push_back(bytes);
  }
  auto const loaded = std::chrono::steady_clock::now();
  out = s.application().reference(in);
  auto const done = std::chrono::steady_clock::now();
  auto const seconds = [](auto from, auto to) {
    return std::chrono::duration<double>(to - from).count();
  };
  return {seconds(start, done), seconds(start, loaded), seconds(loaded, done), std::nullopt};
}

run_times median_run(std::vector<run_times> const& runs) {
  std::vector<double> seconds;
  for (auto const& r : runs) seconds.push_back(r.seconds);
  return runs[median_index(seconds)];
}

outcome run_mode(options const& o, config const& settings, io_shape shape, session& s) {
  outcome r;
  r.bytes = s.bytes_read();
  progress shown("running", static_cast<std::uint64_t>(o.runs) + 1);
  if (!o.cold) s.load_into_page_cache();
  std::vector<run_times> runs, pinned;
  host_outputs on_host({});
  std::optional<gread_files> last_files;
  for (std::int64_t i = 0; i < o.runs; ++i) {
    auto const prepare = [&] {
      if (o.cold) s.drop_from_page_cache();
    };
    shown.say(fmt::format("run {} of {}", i + 1, o.runs));
    prepare();
    if (o.mode == "cpu") {
      runs.push_back(run_on_host(s, on_host));
    } else if (o.mode == "fused") {
      last_files.emplace(settings);
      runs.push_back(s.run_fused(*last_files, shape, false));
    } else if (o.mode == "gread") {
      runs.push_back(s.run(*make_gread_loader(settings, shape)));
    } else if (o.mode == "pipelined") {
      runs.push_back(s.run(*make_pipelined_loader()));
    } else {
      pinned.push_back(s.run(*make_cpuio_loader(s.largest_file(), true)));
      prepare();
      runs.push_back(s.run(*make_cpuio_loader(s.largest_file(), false)));
    }
    shown.advance(1);
  }
  r.times = median_run(runs);
  if (!pinned.empty()) r.pinned = median_run(pinned).io_seconds;
  if (!o.output.empty()) {
    for (auto const& path :
         s.application().write_pictures(o.mode == "cpu" ? on_host : s.outputs(), o.output)) {
      print_error("wrote {}\n", path);
    }
  }
  if (o.check) {
    shown.say("checking");
    r.checked = o.mode == "cpu"     ? verify_host(s, on_host)
                : o.mode == "fused" ? verify_fused(s, *last_files, shape)
                                    : verify(s);
  }
  return r;
}

void add_level(json_line& to, char const* name, verdict::level const& l) {
  if (l.done) to.boolean(name, l.wrong.empty());
}

void print_json(options const& o, config const& settings, port_description const& what,
                outcome const& r) {
  json_line j;
  add_heading(j, what.name);
  j.text("mode", o.mode);
  if (o.input.empty())
    j.text("size", o.size).text("gen", o.generator).integer("seed", o.seed);
  else
    j.text("input", o.input);
  j.boolean("cold", o.cold)
      .integer("runs", static_cast<std::uint64_t>(o.runs))
      .integer("bytes", r.bytes);
  j.number("seconds", r.times.seconds)
      .number("io_seconds", r.times.io_seconds)
      .number("compute_seconds", r.times.compute_seconds);
  j.number("GBps", gigabytes_per_second(r.bytes, r.times.seconds));
  j.number("io_GBps", gigabytes_per_second(r.bytes, r.times.io_seconds));
  if (r.pinned)
    j.number("pinned_io_seconds", r.pinned)
        .number("pinned_io_GBps", gigabytes_per_second(r.bytes, *r.pinned));
  if (r.times.counters) j.members(to_json_fields(*r.times.counters));
  if (o.check) {
    j.boolean("verified", r.checked.good());
    add_level(j, "integrity", r.checked.integrity);
    add_level(j, "cross_mode", r.checked.cross_mode);
    add_level(j, "reference", r.checked.reference);
  }
  add_settings(j, settings);
  fmt::print("{}\n", j.str());
}

void print_text(options const& o, port_description const& what, outcome const& r) {
  fmt::print(
      "{} {} {}: {} bytes in {:.4f} s ({:.3f} GB/s): I/O {:.4f} s ({:.3f} GB/s), compute {:.4f} s, "
      "on {}\n",
      what.name, o.mode, o.input.empty() ? o.size : o.input, r.bytes, r.times.seconds,
      gigabytes_per_second(r.bytes, r.times.seconds), r.times.io_seconds,
      gigabytes_per_second(r.bytes, r.times.io_seconds), r.times.compute_seconds,
      o.mode == "cpu" ? "the host" : current_device().name);
  if (r.pinned)
    fmt::print("  through pinned memory: I/O {:.4f} s ({:.3f} GB/s)\n", *r.pinned,
               gigabytes_per_second(r.bytes, *r.pinned));
  if (r.times.counters) fmt::print("{}", to_text(*r.times.counters));
  if (o.check && r.checked.good()) fmt::print("  checked: {}\n", r.checked.text());
}

int run(options const& o, config const& settings, port_description const& what) {
  validate(settings);
  check_option("--runs", o.runs, 1, 1000);
  check_given(o, what);
  check_picture_folder(o.output);
  io_shape const shape = shape_of(o);
  session s(what, problem_of(o), o.data);
  outcome const r = run_mode(o, settings, shape, s);
  if (o.json) {
    print_json(o, settings, what, r);
  } else {
    print_text(o, what, r);
  }
  if (r.checked.good()) return 0;
  print_error("{}: check failed: {}\n", what.name, r.checked.text());
  return status_failed;
}

}  // namespace

int run_port(port_description const& what, int argc, char** argv) {
  CLI::App app(std::string(what.summary), std::string(what.name));
  options o;
  o.blocks = what.blocks;
  add_options(app, o, what);
  cli_settings const settings(app);
  return run_program(app, argc, argv, [&] { return run(o, settings.load(), what); });
}

}  // namespace gpufs::apps
