// 2DCONV (PolyBench): one 3 x 3 convolution of a matrix. The border of the result stays zero.
#include <gpufs/gpufs.hpp>

#include <apps/harness/parallel.hpp>
#include <apps/harness/picture_file.hpp>
#include <apps/harness/real_input.hpp>
#include <apps/harness/strips.hpp>
#include <apps/ports/all.hpp>

namespace gpufs::apps {

namespace {

/// The convolution at column j of the middle one of three rows.
__host__ __device__ inline float convolve(float const* above, float const* here, float const* below,
                                          std::uint64_t j) {
  return 0.2f * above[j - 1] + 0.5f * above[j] - 0.8f * above[j + 1]  //
         - 0.3f * here[j - 1] + 0.6f * here[j] - 0.9f * here[j + 1]   //
         + 0.4f * below[j - 1] + 0.7f * below[j] + 0.1f * below[j + 1];
}

__global__ void convolve_matrix(float const* in, float* out, std::uint64_t rows,
                                std::uint64_t columns) {
  std::uint64_t const i = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  std::uint64_t const j = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i == 0 || j == 0 || i + 1 >= rows || j + 1 >= columns) return;
  float const* const here = in + i * columns;
  out[i * columns + j] = convolve(here - columns, here, here + columns, j);
}

/// Reads the file itself: each block its strip of rows and one more on either side, of which it
/// holds three at a time.
__global__ void __launch_bounds__(512) convolve_file(chunk_io files, float* windows, float* out,
                                                     std::uint64_t rows, std::uint64_t columns) {
  io_context io(files.fs, cooperative_groups::this_thread_block());
  int const fd = open_file(io, files, 0);
  if (fd < 0) return;
  strip const mine = strip_of(rows, gridDim.x, blockIdx.x);
  float* const window = windows + blockIdx.x * 3 * columns;
  auto const slot = [&](std::uint64_t row) { return window + row % 3 * columns; };
  std::uint64_t const first = mine.begin == 0 ? 0 : mine.begin - 1;
  std::uint64_t const last = mine.end < rows ? mine.end : rows - 1;
  std::uint64_t const row_bytes = columns * sizeof(float);
  for (std::uint64_t r = first; mine.begin < mine.end && r <= last; ++r) {
    if (!read_chunk(io, files, 0, fd, slot(r), row_bytes, r * row_bytes)) break;
    // A row of an odd number of floats shares a word with the next one.
    if (r > mine.begin)
      add_to_checksum(files, 0, slot(r - 1), row_bytes, (r - 1) * row_bytes, slot(r));
    if (r + 1 == mine.end && mine.end == rows)
      add_to_checksum(files, 0, slot(r), row_bytes, r * row_bytes);
    if (r < first + 2) continue;
    // gread begins with a barrier. So no thread overwrites a row that others still use.
    for (std::uint64_t j = 1 + threadIdx.x; j + 1 < columns; j += blockDim.x) {
      out[(r - 1) * columns + j] = convolve(slot(r - 2), slot(r - 1), slot(r), j);
    }
  }
  gclose(io, fd);
}

class conv2d final : public port {
 public:
  explicit conv2d(problem const& p)
      : problem_(p), rows_(p.pick(256, 4096, 16384)), columns_(rows_) {
    if (p.input.empty()) return;
    auto const shape = read_real_input(p.input, {"rows", "columns"}, sizeof(float));
    rows_ = shape.at("rows");
    columns_ = shape.at("columns");
    check_rows(p.input, rows_, block.y);
  }

  std::vector<input_file> files() const override {
    // The suite's own input is uniform in [0, 1) as well.
    auto file = whole_file(
        "a.f32", rows_ * columns_ * sizeof(float), columns_ * sizeof(float),
        fill_elements<float>([seed = problem_.seed](std::uint64_t i) { return uniform(seed, i); }));
    file.path = problem_.input;
    return {file};
  }

  std::vector<output_array> outputs() const override {
    return {{"b", element::f32, rows_ * columns_, {2e-6, 1e-5}}};
  }

  void prepare() override {
    load_kernel(convolve_matrix);
    load_kernel(convolve_file);
  }

  void compute(device_arrays const& a) override {
    dim3 const grid(static_cast<unsigned>((columns_ + 31) / 32),
                    static_cast<unsigned>((rows_ + 7) / 8));
    launch(convolve_matrix, grid, block, a.input<float>(0), a.output<float>(0), rows_, columns_);
  }

  void prepare_fused(unsigned blocks) override { windows_ = buffer<float>(blocks * 3 * columns_); }

  void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                     device_arrays const& a) override {
    launch(convolve_file, blocks, threads, files, windows_.data(), a.output<float>(0), rows_,
           columns_);
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    float const* const a = in.as<float>(0).data();
    float* const b = out.as<float>(0).data();
    parallel_for(rows_, 16, [&](std::uint64_t i) {
      if (i == 0 || i + 1 >= rows_) return;
      float const* const here = a + i * columns_;
      for (std::uint64_t j = 1; j + 1 < columns_; ++j)
        b[i * columns_ + j] = convolve(here - columns_, here, here + columns_, j);
    });
    return out;
  }

  std::vector<std::string> write_pictures(host_outputs const& got,
                                          std::string const& folder) const override {
    return {write_picture(folder, "2dconv.png", got.as<float>(0), columns_, rows_)};
  }

 private:
  static constexpr dim3 block{32, 8};

  problem problem_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  buffer<float> windows_;
};

}  // namespace

port_description const port_2dconv{
    .name = "2dconv",
    .summary = "PolyBench 2DCONV: a 3 x 3 convolution of a matrix that is read from a file",
    .blocks = 128,
    .fused = true,
    .real_input = "floats; NAME.meta beside it has lines rows=NUMBER and columns=NUMBER",
    .pictures = true,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<conv2d>(p); },
};

}  // namespace gpufs::apps
