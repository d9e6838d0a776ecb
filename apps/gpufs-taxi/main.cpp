// gpufs-taxi: sums over the few long trips among many, whose columns are files.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>

#include <apps/analytics/outcome.hpp>
#include <apps/analytics/taxi/query.hpp>
#include <apps/analytics/turns.hpp>
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

constexpr char const* program = "gpufs-taxi";

struct options {
  run_options run;
  std::vector<std::int64_t> queries = {0, 5};
  std::string size = "smoke";
  std::int64_t rows = not_given;
  std::string clustering = "scattered";
  bool mean = false;
  std::string data;
};

void add_options(CLI::App& app, options& o) {
  app.add_option("--query", o.queries,
                 "one or several of 0 to 5: 0 counts the trips and sums their distances, each "
                 "further one sums another column: total, surcharge, hail fee, tolls, tax")
      ->delimiter(',')
      ->capture_default_str();
  auto* const size =
      app.add_option("--size", o.size, "smoke (2^16 rows), medium (2^24), large (2^28)")
          ->check(CLI::IsMember({"smoke", "medium", "large"}))
          ->capture_default_str();
  app.add_option("--rows", o.rows, "another number of rows, up to 2^40")->excludes(size);
  app.add_option("--clustering", o.clustering,
                 "how the long trips lie, 3 of 10,000: scattered; runs of 64 neighbouring rows; "
                 "mixed: at a rate that changes")
      ->check(CLI::IsMember({"scattered", "runs", "mixed"}))
      ->capture_default_str();
  app.add_flag("--mean", o.mean, "of query 5: also the mean of the trips' earnings per mile");
  app.add_option("--seed", o.run.seed, "of the rows")->capture_default_str();
  app.add_option("--data", o.data,
                 "keep the columns in this folder, or take them from there; default: nameless "
                 "temporary files");
  add_run_options(app, o.run,
                  {variant::array, variant::pointer, variant::gread, variant::zerocopy,
                   variant::managed, variant::copy, variant::pipeline, variant::memory});
}

std::uint64_t rows_of(options const& o) {
  if (o.rows != not_given) {
    check_option("--rows", o.rows, 1, std::int64_t{1} << 40);
    return static_cast<std::uint64_t>(o.rows);
  }
  return std::uint64_t{1} << (o.size == "smoke" ? 16 : o.size == "medium" ? 24 : 28);
}

/// Runs a query in all variants in turns, and reports them. Returns what the runs came to.
std::vector<measured> answer(options const& o, unsigned query, taxi_setup const& setup) {
  std::vector<taxi_result> results(o.run.variants.size());
  taxi_result const right = o.run.check ? query_on_host(query, setup) : taxi_result{};
  auto const text = [&](taxi_result const& r) { return text_of(r, query, o.mean); };
  auto const all = run_in_turns(
      o.run, fmt::format("query {}, ", query),
      [&](variant how) { return make_taxi_query(how, query, setup); },
      [&](taxi_query& made, std::size_t i) {
        for (auto const& f : setup.data->files()) prepare(o.run, f);
        return made.run(results[i]);
      },
      [&](std::size_t i, run_outcome const&) {
        if (results[i] == right) return std::string{};
        return fmt::format("query {}: {}; by the host {}", query, text(results[i]), text(right));
      });
  report_heading const heading{program, setup.rows * sizeof(std::int64_t) * (query + 1),
                               &setup.settings};
  if (!o.run.json) fmt::print("query {}: {}\n", query, text(results[0]));
  for (std::size_t i = 0; i < all.size(); ++i) {
    json_line members, sums;
    for (unsigned c = 0; c <= query; ++c) sums.hundredths(column_names[c], results[i].sums[c]);
    members.integer("query", query).integer("rows", setup.rows).text("clustering", o.clustering);
    members.integer("trips", results[i].trips).object("sums", sums);
    print_outcome(o.run, heading, all[i], members);
  }
  return all;
}

int taxi(options const& o, config const& settings) {
  check_run_options(o.run);
  for (auto const q : o.queries) check_option("--query", q, 0, most_queries - 1);
  if (o.mean && std::ranges::find(o.queries, most_queries - 1) == o.queries.end())
    throw usage_error(fmt::format("--mean: is of --query={}", most_queries - 1));
  std::uint64_t const rows = rows_of(o);
  launch_shape const shape = shape_of(o.run);
  config const used = settings_of(settings, shape);
  std::string const origin = fmt::format("taxi {} {} {}", rows, o.run.seed, o.clustering);
  data_set const data(taxi_files(rows, o.run.seed, clustering_named(o.clustering)), origin, o.data);
  taxi_setup const setup{
      &data, rows,           o.mean,          shape, static_cast<std::uint64_t>(o.run.stride),
      used,  is_warm(o.run), drives_of(o.run)};
  if (!o.run.json) fmt::print("{} rows, {}, seed {}\n", rows, o.clustering, o.run.seed);
  std::vector<measured> all;
  for (auto const q : o.queries)
    for (auto& m : answer(o, static_cast<unsigned>(q), setup)) all.push_back(std::move(m));
  if (std::string const changed = o.run.check ? data.changed() : ""; !changed.empty())
    for (auto& m : all) m.wrong = changed;
  return conclude(o.run, program, all,
                  fmt::format("{} queries of {} rows", o.queries.size(), rows));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Sums over the taxi trips of at least 30 miles, which are few. The columns are files. A "
      "kernel reads one of\n"
      "them from end to end, and of the others what it needs.",
      program);
  options o;
  add_options(app, o);
  cli_settings const settings(app);
  return run_program(app, argc, argv, [&] { return taxi(o, settings.load()); });
}
