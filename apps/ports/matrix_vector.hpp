// Products of a row-major matrix and of its transpose with vectors, from memory and from a file:
// what GESUMMV, MVT, BICG and ATAX share. Vectors that are formulas, and what becomes of a sum, are
// function objects.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/gpufs.hpp>

#include <apps/harness/chunk_io.hpp>
#include <apps/harness/strips.hpp>
#include <apps/ports/matrix_host.hpp>

#include <cstdint>

namespace gpufs::apps {

struct matrix_shape {
  std::uint64_t rows;
  std::uint64_t columns;
};

using base::warp_sum;  // in a fixed order

/// The sum of `value` over the block, in a fixed order; all threads get it. Ends with a barrier.
__device__ inline float block_sum(float value) {
  __shared__ float of_warp[32];
  float const mine = warp_sum(value);
  if (lane_id() == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  float const sum = warp_sum(lane_id() < blockDim.x / 32 ? of_warp[lane_id()] : 0);
  __syncthreads();
  return sum;
}

/// finish(i, sum of a[i][j] * x(j) over j), for each row: a warp sums up a row.
template <class X, class Finish>
__global__ void sum_rows(float const* a, matrix_shape shape, X x, Finish finish) {
  std::uint64_t const i = (blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x) / 32;
  if (i >= shape.rows) return;
  float sum = 0;
  for (std::uint64_t j = lane_id(); j < shape.columns; j += 32)
    sum += a[i * shape.columns + j] * x(j);
  sum = warp_sum(sum);
  if (lane_id() == 0) finish(i, sum);
}

/// The same as PolyBench does it: a thread for each row.
template <class X, class Finish>
__global__ void sum_rows_by_thread(float const* a, matrix_shape shape, X x, Finish finish) {
  std::uint64_t const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= shape.rows) return;
  float sum = 0;
  for (std::uint64_t j = 0; j < shape.columns; ++j) sum += a[i * shape.columns + j] * x(j);
  finish(i, sum);
}

/// partials[strip][j] = sum of a[i][j] * weight(i) over the rows i of a strip. A grid of columns x
/// strips.
template <class Weight>
__global__ void sum_columns(float const* a, matrix_shape shape, Weight weight, float* partials) {
  std::uint64_t const j = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (j >= shape.columns) return;
  strip const mine = strip_of(shape.rows, gridDim.y, blockIdx.y);
  float sum = 0;
  for (std::uint64_t i = mine.begin; i < mine.end; ++i) sum += a[i * shape.columns + j] * weight(i);
  partials[blockIdx.y * shape.columns + j] = sum;
}

/// finish(j, sum of partials[s][j] over the strips s, in order): no atomics, so the result is the
/// same every time.
template <class Finish>
__global__ void add_partials(float const* partials, std::uint64_t columns, unsigned strips,
                             Finish finish) {
  std::uint64_t const j = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (j >= columns) return;
  float sum = 0;
  for (unsigned s = 0; s < strips; ++s) sum += partials[s * columns + j];
  finish(j, sum);
}

struct no_weight {
  __device__ float operator()(std::uint64_t, float) const { return 0; }
};

/// Reads a matrix that begins at `offset` of file 0, row by row, each block its strip of rows. For
/// each row finish(i, sum of a[i][j] * x(j)); and, unless `partials` is null, partials[block][j] +=
/// a[i][j] * weight(i, that sum). `windows` has room for one row for each block.
template <class X, class Finish, class Weight>
__global__ void __launch_bounds__(512)
    sum_file(chunk_io files, std::uint64_t offset, matrix_shape shape, float* windows,
             float* partials, X x, Finish finish, Weight weight) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  int const fd = open_file(io, files, 0);
  if (fd < 0) return;
  float* const row = windows + blockIdx.x * shape.columns;
  float* const partial = partials == nullptr ? nullptr : partials + blockIdx.x * shape.columns;
  if (partial != nullptr) {
    for (std::uint64_t j = threadIdx.x; j < shape.columns; j += blockDim.x) partial[j] = 0;
  }
  std::uint64_t const row_bytes = shape.columns * sizeof(float);
  strip const mine = strip_of(shape.rows, gridDim.x, blockIdx.x);
  for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
    std::uint64_t const at = offset + i * row_bytes;
    if (!read_chunk(io, files, 0, fd, row, row_bytes, at)) break;
    add_to_checksum(files, 0, row, row_bytes, at);
    float sum = 0;
    for (std::uint64_t j = threadIdx.x; j < shape.columns; j += blockDim.x) sum += row[j] * x(j);
    sum = block_sum(sum);
    if (threadIdx.x == 0) finish(i, sum);
    if (partial == nullptr) continue;
    float const w = weight(i, sum);
    for (std::uint64_t j = threadIdx.x; j < shape.columns; j += blockDim.x)
      partial[j] += row[j] * w;
  }
  gclose(io, fd);
}

/// Launches for a matrix in memory; `by_thread`: as PolyBench does it.
struct matrix_products {
  matrix_shape shape;
  bool by_thread = false;
  buffer<float> partials;  ///< strips x columns; a strip for each block of the paper's I/O kernel

  static constexpr unsigned strips = 128;

  explicit matrix_products(matrix_shape s, bool one_thread_each)
      : shape(s), by_thread(one_thread_each) {}
  void allocate() { partials = buffer<float>(strips * shape.columns); }

  template <class X, class Finish>
  void rows(float const* a, X x, Finish finish) const {
    if (by_thread) {
      launch(sum_rows_by_thread<X, Finish>, blocks_of(shape.rows), 256, a, shape, x, finish);
    } else {
      launch(sum_rows<X, Finish>, blocks_of(shape.rows * 32), 256, a, shape, x, finish);
    }
  }
  template <class Weight, class Finish>
  void columns(float const* a, Weight weight, Finish finish) const {
    unsigned const used = by_thread ? 1 : strips;
    launch(sum_columns<Weight>, dim3(blocks_of(shape.columns), used), 256, a, shape, weight,
           partials.data());
    launch(add_partials<Finish>, blocks_of(shape.columns), 256, partials.data(), shape.columns,
           used, finish);
  }

 private:
  static unsigned blocks_of(std::uint64_t threads) {
    return static_cast<unsigned>((threads + 255) / 256);
  }
};

/// Room for sum_file().
struct file_products {
  buffer<float> windows;
  buffer<float> partials;
  file_products() = default;
  file_products(unsigned blocks, std::uint64_t columns)
      : windows(blocks * columns), partials(blocks * columns) {}
};

}  // namespace gpufs::apps
