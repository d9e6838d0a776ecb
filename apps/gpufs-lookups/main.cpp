// gpufs-lookups: look-ups in an array that lies in a file, in a few patterns.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>

#include <apps/analytics/lookups/lookups.hpp>
#include <apps/analytics/turns.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/zipf.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::apps::analytics;

constexpr char const* program = "gpufs-lookups";

struct options {
  run_options run;
  std::string pattern = "random";
  std::int64_t elements = 1 << 16;
  std::int64_t threads = 1 << 12;
  std::int64_t steps = 1;
  std::int64_t lanes = 32;
  std::int64_t uses = 1;
  double theta = 1.8;
  bool hot = false;
  std::string data;
};

void add_options(CLI::App& app, options& o) {
  app.add_option("--pattern", o.pattern,
                 "consecutive: neighbouring threads, neighbouring elements; random; page: all "
                 "threads in the first page; sweep: a warp along elements of its own; reuse: lanes "
                 "share a random page for a while; zipf: a warp draws pages by Zipf's law, few of "
                 "them often")
      ->check(CLI::IsMember({"consecutive", "random", "page", "sweep", "reuse", "zipf"}))
      ->capture_default_str();
  app.add_option("--elements", o.elements, "elements of 8 bytes in the file, up to 2^40")
      ->capture_default_str();
  app.add_option("--lookers", o.threads,
                 "threads that look up, a multiple of 32 up to 2^40; as many as --blocks and "
                 "--threads say at once, the rest in turn")
      ->capture_default_str();
  app.add_option("--steps", o.steps, "look-ups of each, up to 2^20")->capture_default_str();
  app.add_option("--lanes", o.lanes, "of reuse: lanes that share a page: 1, 2, 4, 8, 16 or 32")
      ->capture_default_str();
  app.add_option("--uses", o.uses, "of reuse: steps until the next page, up to --steps")
      ->capture_default_str();
  app.add_option("--theta", o.theta,
                 "of zipf: the k-th most wanted page is drawn k^-theta as often as the first; "
                 "above 0, at most 8")
      ->capture_default_str();
  app.add_flag("--hot", o.hot, "look all up once before the time, so that the cache has them");
  app.add_option("--seed", o.run.seed, "of elements and places")->capture_default_str();
  app.add_option("--data", o.data,
                 "keep words.u64 in this folder, or take it from there; default: a nameless "
                 "temporary file");
  add_run_options(app, o.run,
                  {variant::array, variant::pointer, variant::zerocopy, variant::managed,
                   variant::copy, variant::pipeline, variant::memory});
}

/// Throws usage_error naming an option that was given and means nothing for the pattern or the
/// variants.
void check_given(options const& o) {
  options const unset;
  if (o.hot && !is_by_filesystem(o.run))
    throw usage_error("--hot: is of the variants array and pointer");
  auto const check = [&](char const* option, auto const& value, auto const& usual,
                         char const* owner) {
    if (value != usual && o.pattern != owner)
      throw usage_error(fmt::format("{}={}: is of --pattern={}", option, value, owner));
  };
  check("--lanes", o.lanes, unset.lanes, "reuse");
  check("--uses", o.uses, unset.uses, "reuse");
  check("--theta", o.theta, unset.theta, "zipf");
}

lookup_plan plan_of(options const& o, std::uint64_t page_size) {
  check_option("--elements", o.elements, 1, std::int64_t{1} << 40);
  check_option("--lookers", o.threads, 32, std::int64_t{1} << 40);
  check_option("--steps", o.steps, 1, 1 << 20);
  check_option("--lanes", o.lanes, 1, 32);
  if (o.uses < 1 || o.uses > o.steps)
    throw usage_error(fmt::format("--uses={}: must be from 1 to --steps={}", o.uses, o.steps));
  if (!(o.theta > 0 && o.theta <= 8))
    throw usage_error(fmt::format("--theta={}: must be above 0, and at most 8", o.theta));
  if (o.threads % 32 != 0)
    throw usage_error(fmt::format("--lookers={}: must be a multiple of 32", o.threads));
  auto const lanes = static_cast<std::uint64_t>(o.lanes);
  if (!std::has_single_bit(lanes))
    throw usage_error(fmt::format("--lanes={}: must be 1, 2, 4, 8, 16 or 32", o.lanes));
  check_given(o);
  pattern const what = o.pattern == "consecutive" ? pattern::consecutive
                       : o.pattern == "random"    ? pattern::random
                       : o.pattern == "page"      ? pattern::page
                       : o.pattern == "sweep"     ? pattern::sweep
                       : o.pattern == "reuse"     ? pattern::reuse
                                                  : pattern::zipf;
  return {what,
          o.run.seed,
          static_cast<std::uint64_t>(o.elements),
          page_size / sizeof(std::uint64_t),
          static_cast<std::uint64_t>(o.threads),
          static_cast<std::uint64_t>(o.steps),
          lanes,
          static_cast<std::uint64_t>(o.uses)};
}

/// The pages that warps draw, where the pattern is zipf. They draw them in turn.
std::vector<std::uint32_t> draws_of(options const& o, lookup_plan const& plan) {
  if (plan.what != pattern::zipf) return {};
  constexpr std::uint64_t most_pages = std::uint64_t{1} << 32, most_draws = 1 << 20;
  if (plan.pages() > most_pages)
    throw usage_error(
        fmt::format("--elements={}: zipf draws from at most 2^32 pages, needs a "
                    "larger --page-size, or less elements",
                    plan.elements));
  return zipf_draws(plan.pages(), o.theta, std::min(most_draws, plan.threads / 32 * plan.steps),
                    plan.seed);
}

std::vector<measured> run_all(options const& o, lookup_setup const& setup,
                              lookup_facts const& facts) {
  std::uint64_t sum = 0;
  return run_in_turns(
      o.run, "", [&](variant how) { return make_lookups(how, setup); },
      [&](lookups& made, std::size_t) {
        prepare(o.run, *setup.file);
        return made.run(sum);
      },
      [&](std::size_t, run_outcome const& r) { return check_run(setup, facts, r, sum); });
}

int look_up(options const& o, config const& settings) {
  check_run_options(o.run);
  if (o.run.stride != 1)
    throw usage_error("--stride: must be 1, as --pattern says what comes when");
  launch_shape const shape = shape_of(o.run);
  config const used = settings_of(settings, shape);
  lookup_plan plan = plan_of(o, used.page_size);
  std::vector<std::uint32_t> const draws = draws_of(o, plan);
  plan.draws = draws.data();
  plan.draw_count = draws.size();
  auto const fill = fill_elements<std::uint64_t>(
      [seed = plan.seed](std::uint64_t i) { return generate(seed, i); });
  std::uint64_t const bytes = plan.elements * sizeof(std::uint64_t);
  data_set const data({whole_file("words.u64", bytes, sizeof(std::uint64_t), fill)},
                      fmt::format("lookups {} {}", plan.elements, plan.seed), o.data);
  lookup_setup const setup{&data.files()[0], plan, shape, used, o.hot, is_warm(o.run),
                           drives_of(o.run)};
  lookup_facts const facts = facts_of(plan);
  std::uint64_t const count = plan.threads * plan.steps;
  if (!o.run.json)
    fmt::print("{} look-ups, {}, in {} pages; seed {}\n", count, o.pattern, facts.pages, plan.seed);
  std::vector<measured> all = run_all(o, setup, facts);
  if (std::string const changed = o.run.check ? data.changed() : ""; !changed.empty())
    for (auto& m : all) m.wrong = changed;
  for (auto const& m : all) {
    double const rate = static_cast<double>(count) / m.median_run().seconds;
    json_line members;
    members.text("pattern", o.pattern).integer("elements", plan.elements).boolean("hot", o.hot);
    members.integer("lookers", plan.threads).integer("steps", plan.steps);
    members.integer("lanes", plan.lanes).integer("uses", plan.uses);
    members.integer("pages", facts.pages).number("lookups_per_second", rate);
    print_outcome(o.run, {program, count * sizeof(std::uint64_t), &used}, m, members);
    if (!o.run.json) fmt::print("  {:.3f} million look-ups/s\n", rate / 1e6);
  }
  return conclude(o.run, program, all, fmt::format("{} look-ups", count));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Threads look up elements of an array that lies in a file, in a pattern, and add them up.",
      program);
  options o;
  add_options(app, o);
  cli_settings const settings(app);
  return run_program(app, argc, argv, [&] { return look_up(o, settings.load()); });
}
