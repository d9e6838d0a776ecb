// gpufs-vectoradd: c = a + b with all three in files, by gpufs and hand-written.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>

#include <apps/analytics/outcome.hpp>
#include <apps/analytics/turns.hpp>
#include <apps/analytics/vector_add/vector_add.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/program.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::apps::analytics;

constexpr char const* program = "gpufs-vectoradd";

std::vector<variant> const allowed = {variant::array, variant::pointer,  variant::gread,
                                      variant::tiles, variant::zerocopy, variant::managed,
                                      variant::copy,  variant::memory,   variant::pipeline};

struct options {
  run_options run;
  std::string size = "smoke";
  std::int64_t elements = not_given;
  std::string data;
  std::string output;
};

void add_options(CLI::App& app, options& o) {
  auto* const size =
      app.add_option("--size", o.size, "smoke (2^14 elements), medium (2^22), large (2^28)")
          ->check(CLI::IsMember({"smoke", "medium", "large"}))
          ->capture_default_str();
  app.add_option("--elements", o.elements, "another number of elements of 8 bytes, up to 2^40")
      ->excludes(size);
  app.add_option("--seed", o.run.seed, "of a; b has the one behind it")->capture_default_str();
  app.add_option("--data", o.data,
                 "keep a.u64 and b.u64 in this folder, or take them from there; default: nameless "
                 "temporary files");
  app.add_option("--output", o.output,
                 "the file for the sums, which stays; a file that is there is emptied; default: a "
                 "nameless temporary file");
  add_run_options(app, o.run, allowed);
}

std::uint64_t elements_of(options const& o) {
  if (o.elements != not_given) {
    check_option("--elements", o.elements, 1, std::int64_t{1} << 40);
    return static_cast<std::uint64_t>(o.elements);
  }
  return std::uint64_t{1} << (o.size == "smoke" ? 14 : o.size == "medium" ? 22 : 28);
}

/// Runs all variants in turns. Returns what they came to.
std::vector<measured> run_all(options const& o, vector_add_setup const& setup) {
  return run_in_turns(
      o.run, "", [&](variant how) { return make_vector_add(how, setup); },
      [&](vector_add& made, std::size_t) {
        setup.c->clear();
        prepare(o.run, *setup.a);
        prepare(o.run, *setup.b);
        return made.run();
      },
      [&](std::size_t, run_outcome const&) {
        return check_sums(setup.c->path(), setup.elements, o.run.seed);
      });
}

/// Before an old --output is emptied.
void check_write_memory(options const& o, config const& used) {
  auto const writes = [](auto const& name) { return uses_filesystem(variant_named(name)); };
  if (used.write_memory == 0 && std::ranges::any_of(o.run.variants, writes))
    throw usage_error("--write-memory=0: the sums are written, so it must be more");
}

int vectoradd(options const& o, config const& settings) {
  check_run_options(o.run);
  std::uint64_t const elements = elements_of(o);
  launch_shape const shape = shape_of(o.run);
  config const used = settings_of(settings, shape);
  check_write_memory(o, used);
  std::string const origin = fmt::format("vectoradd {} {}", elements, o.run.seed);
  data_set const data(vector_add_inputs(elements, o.run.seed), origin, o.data);
  output_file const sums(o.output, data.files());
  vector_add_setup const setup{&data.files()[0],
                               &data.files()[1],
                               &sums,
                               elements,
                               shape,
                               static_cast<std::uint64_t>(o.run.stride),
                               used,
                               drives_of(o.run)};
  if (!o.run.json) fmt::print("{} elements, seed {}\n", elements, o.run.seed);
  std::vector<measured> all = run_all(o, setup);
  if (o.run.check) {
    if (std::string const changed = data.changed(); !changed.empty())
      for (auto& m : all) m.wrong = changed;
  }
  report_heading const heading{program, 2 * elements * sizeof(std::uint64_t), &used};
  json_line members;
  members.integer("elements", elements);
  for (auto const& m : all) print_outcome(o.run, heading, m, members);
  return conclude(o.run, program, all, fmt::format("{} sums", elements));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Adds two files of 64-bit integers into a third one, with a kernel that reads and writes the "
      "files, or as programs\n"
      "without gpufs do. The time goes from before the first read until the sums are durable.",
      program);
  options o;
  add_options(app, o);
  cli_settings const settings(app);
  return run_program(app, argc, argv, [&] { return vectoradd(o, settings.load()); });
}
