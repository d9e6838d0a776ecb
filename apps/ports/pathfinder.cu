// PATHFINDER (Rodinia): the cheapest way down a grid of costs, row by row, to each column of the
// last row.
#include <gpufs/gpufs.hpp>

#include <apps/harness/parallel.hpp>
#include <apps/harness/strips.hpp>
#include <apps/ports/all.hpp>

#include <algorithm>
#include <utility>

namespace gpufs::apps {

namespace {

constexpr unsigned most_steps = 20;  // rows that one launch goes down

/// Place `t` of a row of costs so far, or a neighbour that lies within the grid: column `j` is that
/// of place `t`.
__device__ inline std::int32_t cheapest(std::int32_t const* costs, unsigned t, std::int64_t j,
                                        std::int64_t columns) {
  std::int32_t const left = j > 0 ? costs[t - 1] : costs[t];
  std::int32_t const right = j + 1 < columns ? costs[t + 1] : costs[t];
  return min(costs[t], min(left, right));
}

/// Goes down `steps` rows. A block holds 256 columns, of which each step spoils one at either end:
/// 256 - 2 * steps remain.
__global__ void __launch_bounds__(256)
    descend(std::int32_t const* wall, std::int64_t columns, unsigned steps,
            std::int32_t const* from, std::int32_t* to) {
  __shared__ std::int32_t costs[2][256];
  unsigned const t = threadIdx.x;
  std::int64_t const j = static_cast<std::int64_t>(blockIdx.x) * (256 - 2 * steps) + t - steps;
  bool const inside = j >= 0 && j < columns;
  costs[0][t] = inside ? from[j] : 0;
  unsigned side = 0;
  for (unsigned s = 0; s < steps; ++s, side ^= 1) {
    __syncthreads();
    if (inside && t > 0 && t < 255)
      costs[side ^ 1][t] = wall[s * columns + j] + cheapest(costs[side], t, j, columns);
  }
  if (inside && t >= steps && t < 256 - steps) to[j] = costs[side][t];
}

/// The same from the file, `steps` rows from byte `offset` on. A block owns a strip of columns and
/// reads, row by row, these and `steps` more on either side: small reads, a row apart. `windows`
/// has room for three times so many columns for each block.
__global__ void __launch_bounds__(512)
    descend_file(chunk_io files, std::uint64_t offset, std::int64_t columns, unsigned steps,
                 std::int32_t* windows, std::int64_t window_columns, std::int32_t const* from,
                 std::int32_t* to) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  int const fd = open_file(io, files, 1);
  if (fd < 0) return;
  // Pairs of columns, so that every strip begins at a multiple of 8 bytes.
  strip const pairs = strip_of(static_cast<std::uint64_t>(columns) / 2, gridDim.x, blockIdx.x);
  auto const begin = static_cast<std::int64_t>(2 * pairs.begin),
             end = static_cast<std::int64_t>(2 * pairs.end);
  std::int64_t const low = begin > steps ? begin - steps : 0;
  std::int64_t const high = end + steps < columns ? end + steps : columns;
  std::int64_t const width = begin < end ? high - low : 0;
  std::int32_t* const row = windows + blockIdx.x * 3 * window_columns;
  std::int32_t* costs = row + window_columns;
  std::int32_t* next = costs + window_columns;
  for (std::int64_t t = threadIdx.x; t < width; t += blockDim.x) costs[t] = from[low + t];
  for (unsigned s = 0; width != 0 && s < steps; ++s) {
    std::uint64_t const start_of_row = offset + s * static_cast<std::uint64_t>(columns) * 4;
    std::uint64_t const at = start_of_row + static_cast<std::uint64_t>(low) * 4;
    // gread begins and ends with a barrier: the step before is over when the row is there.
    if (!read_chunk(io, files, 1, fd, row, static_cast<std::uint64_t>(width) * 4, at)) break;
    add_to_checksum(files, 1, row + (begin - low), static_cast<std::uint64_t>(end - begin) * 4,
                    start_of_row + static_cast<std::uint64_t>(begin) * 4);
    for (std::int64_t t = threadIdx.x; t < width; t += blockDim.x) {
      // The outermost places that are not the grid's border lack a neighbour; what they hold
      // reaches no column of the strip.
      bool const lacks = (t == 0 && low > 0) || (t + 1 == width && high < columns);
      next[t] =
          row[t] + (lacks ? costs[t] : cheapest(costs, static_cast<unsigned>(t), low + t, columns));
    }
    std::int32_t* const swapped = costs;
    costs = next;
    next = swapped;
  }
  __syncthreads();
  for (std::int64_t j = begin + threadIdx.x; j < end; j += blockDim.x) to[j] = costs[j - low];
  gclose(io, fd);
}

/// Reads the first row, each block a strip of it.
__global__ void __launch_bounds__(512)
    read_first_row(chunk_io files, std::uint64_t columns, std::int32_t* row) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  int const fd = open_file(io, files, 0);
  if (fd < 0) return;
  strip const pairs = strip_of(columns / 2, gridDim.x, blockIdx.x);
  std::uint64_t const at = pairs.begin * 8, count = (pairs.end - pairs.begin) * 8;
  if (count != 0 && read_chunk(io, files, 0, fd, row + at / 4, count, at))
    add_to_checksum(files, 0, row + at / 4, count, at);
  gclose(io, fd);
}

class pathfinder final : public port {
 public:
  explicit pathfinder(problem const& p)
      : problem_(p), columns_(p.pick(1000, 50'000, 250'000)), rows_(p.pick(59, 399, 999)) {}

  std::vector<input_file> files() const override {
    auto const costs = [&](char const* name, std::uint64_t array, std::uint64_t rows,
                           std::uint64_t unit) {
      return whole_file(
          name, rows * columns_ * 4, unit,
          fill_elements<std::int32_t>([seed = array_seed(problem_.seed, array)](std::uint64_t i) {
            return static_cast<std::int32_t>(generate_below(seed, i, 10));
          }));
    };
    // Not cut by rows: in the paper the blocks get equal portions.
    return {costs("row0.i32", 0, 1, 4), costs("wall.i32", 1, rows_, 4)};
  }

  std::vector<output_array> outputs() const override {
    return {{"cost", element::i32, columns_, {}}};
  }

  void prepare() override {
    for (auto& r : row_) r = buffer<std::int32_t>(columns_);
    load_kernel(descend);
    load_kernel(descend_file);
    load_kernel(read_first_row);
  }

  void compute(device_arrays const& a) override {
    descend_all(a.input<std::int32_t>(0), a.output<std::int32_t>(0),
                [&](std::uint64_t row, unsigned steps, auto* from, auto* to) {
                  std::uint64_t const width = 256 - 2 * steps;
                  launch(descend, static_cast<unsigned>((columns_ + width - 1) / width), 256,
                         a.input<std::int32_t>(1) + row * columns_,
                         static_cast<std::int64_t>(columns_), steps, from, to);
                });
  }

  void prepare_fused(unsigned blocks) override {
    window_columns_ = 2 * ((columns_ / 2 + blocks - 1) / blocks) + 2 * most_steps;
    windows_ = buffer<std::int32_t>(blocks * 3 * window_columns_);
    first_row_ = buffer<std::int32_t>(columns_);
  }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    launch(read_first_row, blocks, threads, files, columns_, first_row_.data());
    std::int32_t const* const first = first_row_.data();
    descend_all(first, a.output<std::int32_t>(0),
                [&](std::uint64_t row, unsigned steps, auto* from, auto* to) {
                  launch(descend_file, blocks, threads, files, row * columns_ * 4,
                         static_cast<std::int64_t>(columns_), steps, windows_.data(),
                         static_cast<std::int64_t>(window_columns_), from, to);
                });
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    auto const first = in.as<std::int32_t>(0);
    auto const wall = in.as<std::int32_t>(1);
    std::vector<std::int32_t> now(first.begin(), first.end()), next(columns_);
    for (std::uint64_t i = 0; i < rows_; ++i) {
      for (std::uint64_t j = 0; j < columns_; ++j) {
        std::int32_t const left = now[j == 0 ? j : j - 1],
                           right = now[j + 1 == columns_ ? j : j + 1];
        next[j] = wall[i * columns_ + j] + std::min({left, now[j], right});
      }
      std::swap(now, next);
    }
    std::ranges::copy(now, out.as<std::int32_t>(0).begin());
    return out;
  }

 private:
  /// Calls launch_steps(first row of the wall, rows, source, target) for all rows, the last target
  /// being `out`.
  template <class Launch>
  void descend_all(std::int32_t const* from, std::int32_t* out, Launch const& launch_steps) const {
    for (std::uint64_t row = 0, turn = 0; row < rows_; row += most_steps, ++turn) {
      auto const steps = static_cast<unsigned>(std::min<std::uint64_t>(most_steps, rows_ - row));
      std::int32_t* const to = row + steps == rows_ ? out : row_[turn % 2].data();
      launch_steps(row, steps, from, to);
      from = to;
    }
  }

  problem problem_;
  std::uint64_t columns_;
  std::uint64_t rows_;  // of the wall
  buffer<std::int32_t> row_[2];
  buffer<std::int32_t> first_row_;
  buffer<std::int32_t> windows_;
  std::uint64_t window_columns_ = 0;
};

}  // namespace

port_description const port_pathfinder{
    .name = "pathfinder",
    .summary =
        "Rodinia PATHFINDER: cheapest ways through a grid of costs that is read from two files",
    .blocks = 100,
    .fused = true,
    .real_input = {},
    .pictures = false,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> {
      return std::make_unique<pathfinder>(p);
    },
};

}  // namespace gpufs::apps
