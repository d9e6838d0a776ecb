#include <apps/analytics/graph/generators.hpp>
#include <apps/common/generator.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpufs::apps::analytics {

namespace {

struct density {
  std::string_view name;
  std::uint64_t per_vertex;  ///< edges that are drawn
};
constexpr std::uint64_t deep_inside = 6, deep_draws = deep_inside + 4;
constexpr density densities[] = {{"kron", 16},   {"urand", 16},        {"social", 27},
                                 {"dense", 110}, {"deep", deep_draws}, {"grid", 2}};

/// A bijection of [0, 2^bits): neighbours in number are no neighbours in the graph.
struct scrambling {
  unsigned bits;

  [[nodiscard]] std::uint64_t operator()(std::uint64_t x) const {
    std::uint64_t const mask = (std::uint64_t{1} << bits) - 1;
    x = x * 0x9E3779B97F4A7C15 & mask;
    x ^= x >> (bits + 1) / 2;
    return x * 0xD1B54A32D192ED03 & mask;
  }
};

/// R-MAT (Chakrabarti, Zhan and Faloutsos 2004): each bit of both ends is drawn by quadrants.
struct rmat_edges {
  std::uint64_t seed;
  unsigned scale;
  std::uint32_t a, b, c;  ///< probabilities of the first three quadrants, times 2^16

  [[nodiscard]] edge operator()(std::uint64_t k) const {
    edge e{0, 0};
    std::uint64_t draws = 0;
    for (unsigned bit = 0; bit < scale; ++bit) {
      if (bit % 4 == 0) draws = generate(seed, k * 8 + bit / 4);  // 16 bits for each quadrant
      auto const draw = static_cast<std::uint32_t>(draws >> 16 * (bit % 4) & 0xffff);
      bool const lower = draw >= a + b;
      bool const right = lower ? draw >= a + b + c : draw >= a;
      e = {e.from * 2 + (lower ? 1 : 0), e.to * 2 + (right ? 1 : 0)};
    }
    scrambling const scrambled{scale};
    return {scrambled(e.from), scrambled(e.to)};
  }
};
static_assert(highest_scale <= 32, "a draw has 8 words of 4 quadrants");

csr_graph rmat(unsigned scale, std::uint64_t seed, double a, double b, std::uint64_t drawn) {
  auto const times = [](double p) { return static_cast<std::uint32_t>(p * 65536 + 0.5); };
  return build_graph(std::uint64_t{1} << scale, drawn,
                     rmat_edges{seed, scale, times(a), times(b), times(b)});
}

csr_graph uniform_graph(unsigned scale, std::uint64_t seed, std::uint64_t drawn) {
  std::uint64_t const n = std::uint64_t{1} << scale;
  return build_graph(n, drawn, [=](std::uint64_t k) {
    return edge{generate_below(seed, 2 * k, n), generate_below(seed, 2 * k + 1, n)};
  });
}

/// Communities of 2^13 vertices, or smaller ones so that there are 128. Each vertex draws 6
/// neighbours in its own and 4 in the next one, which the last one lacks.
csr_graph deep_graph(unsigned scale, std::uint64_t seed, std::uint64_t drawn) {
  unsigned const bits = std::clamp(scale < 9 ? 2u : scale - 7, 2u, 13u);
  std::uint64_t const n = std::uint64_t{1} << scale;
  return build_graph(n, drawn, [=](std::uint64_t k) {
    std::uint64_t const v = k / deep_draws;
    std::uint64_t const community = (v >> bits) + (k % deep_draws < deep_inside ? 0 : 1);
    std::uint64_t const w = (community << bits) + generate_below(seed, k, std::uint64_t{1} << bits);
    return w < n ? edge{v, w} : edge{v, v};
  });
}

csr_graph torus(unsigned scale, std::uint64_t drawn) {
  unsigned const column_bits = scale / 2;
  std::uint64_t const n = std::uint64_t{1} << scale, columns = std::uint64_t{1} << column_bits;
  return build_graph(n, drawn, [=](std::uint64_t k) {
    std::uint64_t const v = k / 2, column = v % columns;
    return k % 2 == 0 ? edge{v, v - column + (column + 1) % columns} : edge{v, (v + columns) % n};
  });
}

}  // namespace

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (auto const& d : densities) names.emplace_back(d.name);
  return names;
}

std::uint64_t edges_drawn(std::string_view name, unsigned scale) {
  auto const* const found = std::ranges::find(densities, name, &density::name);
  if (found == std::end(densities)) throw usage_error(fmt::format("--generator={}: no such", name));
  return found->per_vertex << scale;
}

csr_graph generate_graph(std::string_view name, unsigned scale, std::uint64_t seed) {
  check_option("--scale", scale, lowest_scale, highest_scale);
  std::uint64_t const drawn = edges_drawn(name, scale);
  if (name == "urand") return uniform_graph(scale, seed, drawn);
  if (name == "deep") return deep_graph(scale, seed, drawn);
  if (name == "grid") return torus(scale, drawn);
  if (name == "social") return rmat(scale, seed, 0.45, 0.22, drawn);
  return rmat(scale, seed, 0.57, 0.19, drawn);  // kron and dense
}

}  // namespace gpufs::apps::analytics
