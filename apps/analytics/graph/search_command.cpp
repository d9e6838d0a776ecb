#include <apps/analytics/graph/reference.hpp>
#include <apps/analytics/graph/search.hpp>
#include <apps/analytics/graph/search_command.hpp>
#include <apps/common/generator.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace gpufs::apps::analytics {

namespace {

constexpr char const* program = "gpufs-graph";

/// The host searches graphs of so many vertices itself. Results of larger ones are proved by what
/// must hold between neighbours, and must be the same in all variants.
constexpr std::uint64_t most_of_bfs = 1 << 20, most_of_cc = 1 << 22;

/// The first vertex with more than two neighbours from a random one on, or that one.
std::uint64_t random_source(graph_file const& g, std::uint64_t seed, std::uint64_t i) {
  std::uint64_t const n = g.header().vertices;
  std::uint64_t const drawn = generate_below(seed, i, n);
  for (std::uint64_t k = 0; k < n; ++k)
    if (std::uint64_t const v = (drawn + k) % n; g.degree(v) > 2) return v;
  return drawn;
}

std::vector<std::uint64_t> sources_of(search_options const& o, graph_file const& g) {
  check_option("--sources", o.sources, 1, 1 << 16);
  auto const last = static_cast<std::int64_t>(g.header().vertices) - 1;
  if (o.source) check_option("--source", *o.source, 0, last);
  if (o.algorithm == "cc") return {0};
  if (o.source) return {static_cast<std::uint64_t>(*o.source)};
  std::vector<std::uint64_t> all;
  for (std::int64_t i = 0; i < o.sources; ++i)
    all.push_back(random_source(g, o.run.seed, static_cast<std::uint64_t>(i)));
  return all;
}

/// Throws usage_error naming an option that was given and means nothing. A --source of cc is let
/// pass: runs of several algorithms have one in common.
void check_given(search_options const& o) {
  search_options const unset;
  if (!is_by_filesystem(o.run)) {
    constexpr char const* owners = "is of the variants array, pointer and gread";
    if (o.hot) throw usage_error(fmt::format("--hot: {}", owners));
    if (o.advice != unset.advice)
      throw usage_error(fmt::format("--advice={}: {}", o.advice, owners));
  }
  if (o.run.seed != unset.run.seed && (o.source || o.algorithm != "bfs")) {
    throw usage_error(
        fmt::format("--seed={}: is of the random sources of --algorithm=bfs", o.run.seed));
  }
  if (o.algorithm == "bfs") return;
  if (o.frontier != unset.frontier)
    throw usage_error(fmt::format("--frontier={}: is of --algorithm=bfs", o.frontier));
  if (o.sources != unset.sources)
    throw usage_error(fmt::format("--sources={}: is of --algorithm=bfs", o.sources));
}

/// What results are compared with.
class expectation {
 public:
  expectation(search_setup const& s, std::uint64_t source) : setup_(s), source_(source) {}

  /// Returns what is wrong with a result, or an empty text.
  std::string check(std::vector<std::uint32_t> const& values) {
    if (right_.empty()) {
      if (std::string const wrong = find_right(values); !wrong.empty()) return wrong;
    }
    auto const [got, wanted] = std::ranges::mismatch(values, right_);
    if (got == values.end()) return {};
    return fmt::format("vertex {}, from {}: {}, not {}", got - values.begin(), source_, *got,
                       *wanted);
  }

 private:
  std::string find_right(std::vector<std::uint32_t> const& values) {
    graph_file const& g = *setup_.graph;
    bool const is_bfs = setup_.what == algorithm::bfs;
    if (g.header().vertices <= (is_bfs ? most_of_bfs : most_of_cc)) {
      right_ = is_bfs ? levels_by_queue(g, source_) : components_by_union(g);
      return {};
    }
    std::string wrong = is_bfs ? check_levels(g, source_, values) : check_components(g, values);
    if (wrong.empty()) right_ = values;
    return wrong;
  }

  search_setup const& setup_;
  std::uint64_t source_;
  std::vector<std::uint32_t> right_;
};

/// The runs of one variant, and what they found.
struct searched {
  measured of;
  std::unique_ptr<graph_search> how;
  std::vector<double> passes;  ///< of each source
  std::vector<double> found;   ///< of each source: vertices reached; of cc: components
};

std::uint64_t count_found(search_result const& r, algorithm what) {
  std::uint64_t count = 0;
  for (std::uint64_t v = 0; v < r.values.size(); ++v)
    count += what == algorithm::bfs ? r.values[v] != no_level : r.values[v] == v;
  return count;
}

std::vector<searched> search_all(search_options const& o, search_setup const& setup,
                                 std::vector<std::uint64_t> const& sources) {
  std::vector<searched> all;
  for (auto const& name : o.run.variants) {
    variant const how = variant_named(name);
    all.push_back({{how, {}, {}}, make_graph_search(how, setup), {}, {}});
  }
  auto const& file = setup.graph->file().file;
  if (!o.run.cold) file.load_into_page_cache(file.size());
  progress shown("searching", sources.size() * static_cast<std::uint64_t>(o.run.runs) * all.size());
  search_result result;
  for (auto const source : sources) {
    expectation right(setup, source);
    for (std::int64_t run = 0; run < o.run.runs; ++run) {
      for (auto& s : all) {
        if (o.run.cold) {
          for (auto& other : all) other.how->close_file();
          file.drop_from_page_cache();
        }
        s.of.runs.push_back(s.how->run(source, result));
        if (o.run.check && s.of.wrong.empty()) s.of.wrong = right.check(result.values);
        if (run == 0) {
          s.passes.push_back(static_cast<double>(result.passes));
          s.found.push_back(static_cast<double>(count_found(result, setup.what)));
        }
        shown.advance(1);
      }
    }
  }
  return all;
}

void print(search_options const& o, search_setup const& setup, searched const& s) {
  graph_header const& h = setup.graph->header();
  bool const is_bfs = setup.what == algorithm::bfs;
  double sum = 0;
  for (auto const& r : s.of.runs) sum += r.seconds;
  double const mean = sum / static_cast<double>(s.of.runs.size());
  json_line members;
  members.text("algorithm", o.algorithm).text("frontier", is_bfs ? o.frontier : "labels");
  members.text("generator", h.made_by()).integer("graph_seed", h.seed);
  members.integer("vertices", h.vertices).integer("edges", h.edges).boolean("hot", o.hot);
  members.number("mean_seconds", mean)
      .number("edges_per_second", static_cast<double>(h.edges) / mean);
  members.numbers("passes", s.passes).numbers(is_bfs ? "reached" : "components", s.found);
  print_outcome(o.run, {program, h.edges * h.id_bytes, &setup.settings}, s.of, members);
  if (!o.run.json) {
    fmt::print("  mean {:.4f} s; {} passes; {} {}\n", mean, fmt::join(s.passes, ", "),
               fmt::join(s.found, ", "), is_bfs ? "vertices reached" : "components");
  }
}

}  // namespace

void add_search_options(CLI::App& command, search_options& o) {
  command.add_option("--file", o.file, "the graph, as `make` makes it")->required();
  command
      .add_option("--algorithm", o.algorithm,
                  "bfs: levels of a breadth-first search; cc: connected components")
      ->check(CLI::IsMember({"bfs", "cc"}))
      ->capture_default_str();
  command
      .add_option(
          "--frontier", o.frontier,
          "how bfs finds what it reached last: scan: looks at all vertices; queue: by a list")
      ->check(CLI::IsMember({"scan", "queue"}))
      ->capture_default_str();
  auto* const sources =
      command
          .add_option("--sources", o.sources, "of bfs: random vertices to search from, by --seed")
          ->capture_default_str();
  command
      .add_option("--source", o.source,
                  "of bfs: the vertex to search from; default: as --sources says")
      ->excludes(sources);
  command.add_option("--seed", o.run.seed, "of random sources of bfs")->capture_default_str();
  command
      .add_option("--advice", o.advice,
                  "for the file: random: nothing is read ahead; sequential; normal: as "
                  "--prefetch-size says")
      ->check(CLI::IsMember({"random", "sequential", "normal"}))
      ->capture_default_str();
  command.add_flag("--hot", o.hot,
                   "later searches find the cache as the last one has left it; else each begins "
                   "with an empty one");
  add_run_options(command, o.run,
                  {variant::array, variant::pointer, variant::gread, variant::zerocopy,
                   variant::managed, variant::copy, variant::pipeline, variant::memory});
}

int run_search(search_options const& o, config const& settings) {
  check_run_options(o.run);
  check_given(o);
  graph_file const graph(o.file);
  launch_shape const shape = shape_of(o.run);
  advice const lists = o.advice == "random"       ? advice::random
                       : o.advice == "sequential" ? advice::sequential
                                                  : advice::normal;
  search_setup const setup{&graph,
                           o.algorithm == "bfs" ? algorithm::bfs : algorithm::cc,
                           o.frontier == "scan" ? frontier::scan : frontier::queue,
                           shape,
                           static_cast<std::uint64_t>(o.run.stride),
                           settings_of(settings, shape),
                           lists,
                           o.hot,
                           is_warm(o.run),
                           drives_of(o.run)};
  auto const sources = sources_of(o, graph);
  // The host's searches and proofs follow the edges.
  if (std::string const damage = o.run.check ? graph.damage() : ""; !damage.empty())
    throw std::runtime_error(damage);
  graph_header const& h = graph.header();
  if (!o.run.json) {
    fmt::print("{} vertices, {} edges in both directions, {} with seed {}; seed of sources {}\n",
               h.vertices, h.edges, h.made_by(), h.seed, o.run.seed);
  }
  std::vector<searched> const all = search_all(o, setup, sources);
  std::vector<measured> outcomes;
  for (auto const& s : all) {
    print(o, setup, s);
    outcomes.push_back(s.of);
  }
  return conclude(
      o.run, program, outcomes,
      fmt::format("{} of {} vertices from {} sources", o.algorithm, h.vertices, sources.size()));
}

}  // namespace gpufs::apps::analytics
