// NW (Rodinia): the scores of the global alignment of two sequences (Needleman and Wunsch), in
// tiles along anti-diagonals.
#include <gpufs/gpufs.hpp>

#include <apps/common/program.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/harness/real_input.hpp>
#include <apps/ports/all.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace gpufs::apps {

namespace {

constexpr unsigned tile = 16;
constexpr std::int32_t penalty = 10;

/// BLOSUM62 for the ten symbols that the suite draws: R N D C Q E G H I L.
constexpr std::array<std::array<std::int8_t, 10>, 10> blosum62{{
    {5, 0, -2, -3, 1, 0, -2, 0, -3, -2},
    {0, 6, 1, -3, 0, 0, 0, 1, -3, -3},
    {-2, 1, 6, -3, 0, 2, -1, -1, -3, -4},
    {-3, -3, -3, 9, -3, -4, -3, -3, -1, -1},
    {1, 0, 0, -3, 5, 2, -2, 0, -3, -2},
    {0, 0, 2, -4, 2, 5, -2, 0, -3, -3},
    {-2, 0, -1, -3, -2, -2, 6, -2, -4, -4},
    {0, 1, -1, -3, 0, 0, -2, 8, -3, -3},
    {-3, -3, -3, -1, -3, -3, -4, -3, 4, 2},
    {-2, -3, -4, -1, -2, -3, -4, -3, 2, 4},
}};

constexpr bool is_symmetric() {
  for (unsigned i = 0; i < 10; ++i) {
    for (unsigned j = 0; j < i; ++j) {
      if (blosum62[i][j] != blosum62[j][i]) return false;
    }
  }
  return true;
}
static_assert(is_symmetric());

/// The new score: along the diagonal with the two symbols' reference, or with a gap in either
/// sequence.
__host__ __device__ inline std::int32_t best(std::int32_t diagonal, std::int32_t reference,
                                             std::int32_t left, std::int32_t up) {
  std::int32_t const match = diagonal + reference;
  std::int32_t const gap = (left > up ? left : up) - penalty;
  return match > gap ? match : gap;
}

__global__ void copy_matrix(std::int32_t const* from, std::int32_t* to, std::uint64_t count) {
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count; i += step)
    to[i] = from[i];
}

/// The tiles of one anti-diagonal, a block of `tile` threads for each: block b has tile column
/// first + b. Thread t does row t of its tile (row and column 0 of the matrix are given).
__global__ void score_tiles(std::int32_t const* reference, std::int32_t* scores, std::uint64_t d,
                            std::uint64_t diagonal, std::uint64_t first) {
  __shared__ std::int32_t f[tile + 1][tile + 1];
  __shared__ std::int32_t r[tile][tile];
  std::uint64_t const tile_column = first + blockIdx.x, tile_row = diagonal - tile_column;
  std::uint64_t const i0 = tile_row * tile,
                      j0 = tile_column * tile;  // the row above and the column left of the tile
  unsigned const t = threadIdx.x;
  for (unsigned i = 0; i < tile; ++i) {
    bool const inside = i0 + i + 1 < d && j0 + t + 1 < d;
    r[i][t] = inside ? reference[(i0 + i + 1) * d + j0 + t + 1] : 0;
  }
  if (j0 + t + 1 < d) f[0][t + 1] = scores[i0 * d + j0 + t + 1];
  if (i0 + t + 1 < d) f[t + 1][0] = scores[(i0 + t + 1) * d + j0];
  if (t == 0) f[0][0] = scores[i0 * d + j0];
  __syncthreads();
  for (unsigned step = 0; step < 2 * tile - 1; ++step) {
    unsigned const j = step - t;  // wraps where this row's turn has not come
    if (j < tile && i0 + t + 1 < d && j0 + j + 1 < d)
      f[t + 1][j + 1] = best(f[t][j], r[t][j], f[t + 1][j], f[t][j + 1]);
    __syncthreads();
  }
  for (unsigned i = 0; i < tile; ++i) {
    if (i0 + i + 1 < d && j0 + t + 1 < d) scores[(i0 + i + 1) * d + j0 + t + 1] = f[i + 1][t + 1];
  }
}

class nw final : public port {
 public:
  explicit nw(problem const& p) : problem_(p), d_(p.pick(100, 4000, 16000)) {
    if (p.input.empty()) return;
    auto const shape = read_real_input(p.input, {"rows", "columns"}, sizeof(std::int32_t));
    d_ = shape.at("rows");
    if (d_ != shape.at("columns") || d_ < 2)
      throw usage_error("--input=" + p.input + ": must have as many rows as columns, 2 at least");
  }

  std::vector<input_file> files() const override {
    std::uint64_t const row = d_ * sizeof(std::int32_t);
    auto const reference = [d = d_, seed = problem_.seed](std::uint64_t e) {
      std::uint64_t const i = e / d, j = e % d;
      if (i == 0 || j == 0) return 0;
      return int{blosum62[generate_below(array_seed(seed, 1), i, 10)]
                         [generate_below(array_seed(seed, 2), j, 10)]};
    };
    auto const start = [d = d_](std::uint64_t e) { return start_of(e / d, e % d); };
    auto ref = whole_file("ref.i32", d_ * row, row, fill_elements<std::int32_t>(reference));
    ref.path = problem_.input;
    return {ref, whole_file("init.i32", d_ * row, row, fill_elements<std::int32_t>(start))};
  }

  std::vector<output_array> outputs() const override {
    return {{"score", element::i32, d_ * d_, {}}};
  }

  void prepare() override {
    load_kernel(copy_matrix);
    load_kernel(score_tiles);
  }

  void compute(device_arrays const& a) override {
    std::int32_t* const scores = a.output<std::int32_t>(0);
    launch(copy_matrix, 256, 256, a.input<std::int32_t>(1), scores, d_ * d_);
    std::uint64_t const tiles = (d_ - 1 + tile - 1) / tile;
    for (std::uint64_t diagonal = 0; diagonal < 2 * tiles - 1; ++diagonal) {
      std::uint64_t const first = diagonal < tiles ? 0 : diagonal - tiles + 1;
      std::uint64_t const last = std::min(diagonal, tiles - 1);
      launch(score_tiles, static_cast<unsigned>(last - first + 1), tile, a.input<std::int32_t>(0),
             scores, d_, diagonal, first);
    }
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const ref = in.as<std::int32_t>(0);
    auto const f = out.as<std::int32_t>(0);
    std::ranges::copy(in.as<std::int32_t>(1), f.begin());
    for (std::uint64_t i = 1; i < d_; ++i) {
      for (std::uint64_t j = 1; j < d_; ++j) {
        std::uint64_t const e = i * d_ + j;
        f[e] = best(f[e - d_ - 1], ref[e], f[e - 1], f[e - d_]);
      }
    }
    return out;
  }

  /// Every place must follow from its neighbours: by induction from the border, all are right then.
  std::string check(host_inputs const& in, host_outputs const& got) const override {
    auto const ref = in.as<std::int32_t>(0);
    auto const f = got.as<std::int32_t>(0);
    std::uint64_t const wrong = parallel_find(d_ * d_, [&](std::uint64_t e) {
      if (e < d_ || e % d_ == 0) return f[e] != start_of(e / d_, e % d_);
      return f[e] != best(f[e - d_ - 1], ref[e], f[e - 1], f[e - d_]);
    });
    if (wrong == d_ * d_) return {};
    return "score[" + std::to_string(wrong / d_) + "][" + std::to_string(wrong % d_) +
           "] does not follow from its neighbours";
  }

 private:
  /// The matrix that the computation starts from: gaps only at the border, zero inside.
  static std::int32_t start_of(std::uint64_t i, std::uint64_t j) {
    return i == 0 || j == 0 ? -penalty * static_cast<std::int32_t>(i + j) : 0;
  }

  problem problem_;
  std::uint64_t d_;
};

}  // namespace

port_description const port_nw{
    .name = "nw",
    .summary =
        "Rodinia NW: alignment scores of two sequences, from files with the symbols' scores and "
        "the border",
    .blocks = 100,
    .fused = false,
    .real_input =
        "scores as 32-bit integers; NAME.meta beside it has lines rows=NUMBER and columns=NUMBER, "
        "equal ones",
    .pictures = false,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<nw>(p); },
};

}  // namespace gpufs::apps
