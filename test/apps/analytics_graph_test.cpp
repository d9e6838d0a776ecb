// Graphs of the analytics programs: generators, files, the host's searches, and the proofs of
// results, which must fail when they should.
#include <apps/analytics/graph/edge_list.hpp>
#include <apps/analytics/graph/generators.hpp>
#include <apps/analytics/graph/graph_file.hpp>
#include <apps/analytics/graph/reference.hpp>
#include <apps/common/program.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::apps::analytics;

namespace {

/// Writes bytes over those of a file.
template <class T>
void overwrite(std::string const& path, std::size_t offset, T value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<char const*>(&value), sizeof(value));
}

}  // namespace

TEST_CASE("generated graphs have each edge in both directions, no loops, and sorted lists") {
  std::uint64_t const seed = test::seed();
  for (auto const& name : generator_names()) {
    CAPTURE(name);
    csr_graph const g = generate_graph(name, 9, seed);
    REQUIRE(g.vertices() == 512);
    REQUIRE(g.offsets.back() == g.edges.size());
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t> balance;
    for (std::uint64_t v = 0; v < g.vertices(); ++v) {
      REQUIRE(std::is_sorted(g.edges.begin() + static_cast<std::ptrdiff_t>(g.offsets[v]),
                             g.edges.begin() + static_cast<std::ptrdiff_t>(g.offsets[v + 1])));
      for (std::uint64_t e = g.offsets[v]; e < g.offsets[v + 1]; ++e) {
        REQUIRE(g.edges[e] < g.vertices());
        REQUIRE(g.edges[e] != v);
        ++balance[{v, g.edges[e]}];
        --balance[{g.edges[e], v}];
      }
    }
    CHECK(std::ranges::all_of(balance, [](auto const& b) { return b.second == 0; }));
    csr_graph const again = generate_graph(name, 9, seed);
    CHECK((again.offsets == g.offsets && again.edges == g.edges));
  }
  CHECK(generate_graph("kron", 8, 1).edges != generate_graph("kron", 8, 2).edges);
  CHECK_THROWS_AS((void)generate_graph("nothing", 8, 1), usage_error);
  CHECK_THROWS_AS((void)generate_graph("kron", 33, 1), usage_error);
}

TEST_CASE("each generated graph is of its kind") {
  std::uint64_t const seed = test::seed();
  test::scratch_folder const folder;
  auto const made = [&](char const* name, unsigned scale) {
    std::string const path = folder / name;
    write_graph(path, generate_graph(name, scale, seed), name, seed);
    return graph_file(path);
  };
  auto const largest = [](graph_file const& g) {
    std::uint64_t most = 0;
    for (std::uint64_t v = 0; v < g.header().vertices; ++v) most = std::max(most, g.degree(v));
    return most;
  };
  for (auto const& name : generator_names()) {  // loops are few
    CAPTURE(name);
    auto const most = 2 * edges_drawn(name, 12),
               edges = generate_graph(name, 12, seed).edges.size();
    CHECK(edges <= most);
    CHECK(edges >= most - most / 16);
  }
  graph_file const grid = made("grid", 8);
  CHECK(grid.header().edges == 4 * 256);
  CHECK(largest(grid) == 4);
  CHECK(std::ranges::max(levels_by_queue(grid, 77)) == 16);  // half of 16 rows and of 16 columns
  CHECK(largest(made("kron", 12)) > 5 * largest(made("urand", 12)));
  graph_file const deep = made("deep", 12);
  auto const levels = levels_by_queue(deep, 0);
  CHECK(std::ranges::max(levels) >= 127);  // 128 communities in a row
}

TEST_CASE("a graph file has what was written, and tells damage") {
  std::uint64_t const seed = test::seed();
  test::scratch_folder const folder;
  std::string const path = folder / "g.csr";
  csr_graph const g = generate_graph("social", 7, seed);
  write_graph(path, g, "social", seed);
  {
    graph_file const f(path);
    CHECK(f.header().made_by() == "social");
    CHECK(f.header().seed == seed);
    CHECK(std::equal(g.offsets.begin(), g.offsets.end(), f.offsets()));
    CHECK(std::equal(g.edges.begin(), g.edges.end(), f.edges()));
    CHECK(f.damage().empty());
    CHECK(f.file().file.size() == f.header().file_bytes());
    overwrite(path, f.header().edges_at, std::uint64_t{1} << 40);
    CHECK(f.damage().find("checksum") != std::string::npos);
  }
  using header = graph_header;
  std::pair<std::size_t, std::uint64_t> const wrong[] = {
      {offsetof(header, magic), 0},         {offsetof(header, version), 2},
      {offsetof(header, vertices), 0},      {offsetof(header, vertices), 129},
      {offsetof(header, vertices), ~0ull},  {offsetof(header, edges), ~0ull},
      {offsetof(header, edges), 1},         {offsetof(header, id_bytes), 4},
      {offsetof(header, offsets_at), 8192}, {offsetof(header, edges_at), 4096},
      {offsetof(header, flags), 0},         {header_bytes, 1},
      {header_bytes + 8 * 5, ~0ull},        {header_bytes + 8 * 128, 7}};
  for (auto const& [at, value] : wrong) {
    CAPTURE(at);
    CAPTURE(value);
    write_graph(path, g, "social", seed);
    overwrite(path, at, value);
    CHECK_THROWS_AS(graph_file{path}, usage_error);
  }
}

TEST_CASE("proofs accept the host's results and no others") {
  std::uint64_t const seed = test::seed();
  test::scratch_folder const folder;
  std::string const path = folder / "g.csr";
  for (auto const* name : {"kron", "deep", "grid"}) {
    CAPTURE(name);
    write_graph(path, generate_graph(name, 9, seed), name, seed);
    graph_file const g(path);
    std::uint64_t source = 0;
    while (g.degree(source) == 0) ++source;
    auto levels = levels_by_queue(g, source);
    CHECK(check_levels(g, source, levels).empty());
    auto components = components_by_union(g);
    CHECK(check_components(g, components).empty());
    std::uint64_t const near = g.edges()[g.offsets()[source]];
    for (std::uint32_t const wrong : {0u, 2u, 3u, no_level}) {
      auto changed = levels;
      changed[near] = wrong;
      CHECK_FALSE(check_levels(g, source, changed).empty());
    }
    CHECK_FALSE(check_levels(g, near, levels).empty());
    auto changed = components;
    changed[near] = static_cast<std::uint32_t>(near + 1);
    CHECK_FALSE(check_components(g, changed).empty());
    changed[near] = static_cast<std::uint32_t>(components[near] == 0 ? 1 : 0);
    CHECK_FALSE(check_components(g, changed).empty());
  }
}

TEST_CASE("an edge list of repeated and turned edges gives each of them twice") {
  test::scratch_folder const folder;
  std::string const path = folder / "edges";
  std::ofstream(path) << "2 0\n0 2\n% no edge\n1 1\n";
  csr_graph const g = read_edge_list(path);
  CHECK(g.offsets == std::vector<std::uint64_t>{0, 2, 2, 4});
  CHECK(g.edges == std::vector<std::uint64_t>{2, 2, 0, 0});
}
