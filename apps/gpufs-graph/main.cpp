// gpufs-graph: searches of graphs whose edges stay in files.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>

#include <apps/analytics/graph/edge_list.hpp>
#include <apps/analytics/graph/generators.hpp>
#include <apps/analytics/graph/graph_file.hpp>
#include <apps/analytics/graph/search_command.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/program.hpp>
#include <apps/common/report_files.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::apps::analytics;

struct make_options {
  std::string file;
  std::string generator = "kron";
  std::int64_t scale = 12;
  std::uint64_t seed = 1;
  std::string input;
};

int make(make_options const& o) {
  check_option("--scale", o.scale, lowest_scale, highest_scale);
  bool const is_generated = o.input.empty();
  check_graph_target(o.file, is_generated ? std::vector<std::string>{} : std::vector{o.input});
  if (is_generated) {
    auto const scale = static_cast<unsigned>(o.scale);
    require_free_space(
        folder_of(o.file), "--file",
        graph_file_bytes(std::uint64_t{1} << scale, 2 * edges_drawn(o.generator, scale)));
  }
  csr_graph const g = is_generated
                          ? generate_graph(o.generator, static_cast<unsigned>(o.scale), o.seed)
                          : read_edge_list(o.input);
  write_graph(o.file, g, is_generated ? o.generator : "import", is_generated ? o.seed : 0);
  fmt::print("{}: {} vertices, {} edges in both directions, {}; now: gpufs-graph run --file {}\n",
             o.file, g.vertices(), g.edges.size(),
             is_generated ? fmt::format("{} with seed {}", o.generator, o.seed)
                          : fmt::format("from {}", o.input),
             o.file);
  return 0;
}

void add_options(CLI::App& command, make_options& o) {
  command
      .add_option("--file", o.file,
                  "the graph file to make, or to replace; a file that is no graph stays")
      ->required();
  auto* const generator =
      command
          .add_option("--generator", o.generator,
                      "kron: R-MAT, few vertices have most edges; urand: uniform; social: a milder "
                      "kron; dense: kron with many edges; deep: many levels; grid: a torus")
          ->check(CLI::IsMember(generator_names()))
          ->capture_default_str();
  auto* const scale =
      command.add_option("--scale", o.scale, "2^scale vertices, 4 to 32")->capture_default_str();
  auto* const seed =
      command.add_option("--seed", o.seed, "of the generated graph")->capture_default_str();
  command
      .add_option("--input", o.input,
                  "text with an edge \"u v\" in each line, numbers from 0 on, or a Matrix Market "
                  "file, in place of a generated graph")
      ->excludes(generator)
      ->excludes(scale)
      ->excludes(seed);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Breadth-first search and connected components of graphs whose edges stay in a file, which a "
      "kernel\n"
      "reads while it searches. First `make`, then `run`.",
      "gpufs-graph");
  app.require_subcommand(1);
  CLI::App& make_command = *app.add_subcommand("make", "makes a graph file");
  make_options made;
  add_options(make_command, made);
  CLI::App& run_command = *app.add_subcommand("run", "searches a graph");
  search_options searched;
  add_search_options(run_command, searched);
  cli_settings const settings(run_command);
  return run_program(app, argc, argv, [&] {
    if (make_command.parsed()) return make(made);
    return run_search(searched, settings.load());
  });
}
