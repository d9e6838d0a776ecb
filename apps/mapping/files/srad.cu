// srad_v2 (DRAGON, from Rodinia): speckles are removed from a picture. The CPU reads a region of it
// between the kernels. Five of six arrays are scratch.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>
#include <apps/mapping/files/srad_reference.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include <fcntl.h>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_j, object_c, object_e, object_w, object_s, object_n };

constexpr unsigned side = 16;                      // of a block of threads
constexpr std::uint64_t picture_block = 64 << 10;  // of the picture: the region is short rows

/// What kernel 1 leaves for kernel 2.
struct scratch_arrays {
  float *c, *e, *w, *s, *n;
};

__global__ void __launch_bounds__(side* side)
    find_coefficients(float const* picture, scratch_arrays to, std::uint64_t n, float q0) {
  std::uint64_t const i = blockIdx.y * std::uint64_t{side} + threadIdx.y;
  std::uint64_t const j = blockIdx.x * std::uint64_t{side} + threadIdx.x;
  if (i >= n || j >= n) return;
  std::uint64_t const at = i * n + j;
  auto const d =
      diffuse(picture[at], picture[i == 0 ? at : at - n], picture[i + 1 == n ? at : at + n],
              picture[j == 0 ? at : at - 1], picture[j + 1 == n ? at : at + 1], q0);
  to.c[at] = d.c;
  to.n[at] = d.north;
  to.s[at] = d.south;
  to.w[at] = d.west;
  to.e[at] = d.east;
}

__global__ void __launch_bounds__(side* side)
    update_picture(float* picture, scratch_arrays from, std::uint64_t n) {
  std::uint64_t const i = blockIdx.y * std::uint64_t{side} + threadIdx.y;
  std::uint64_t const j = blockIdx.x * std::uint64_t{side} + threadIdx.x;
  if (i >= n || j >= n) return;
  std::uint64_t const at = i * n + j;
  diffusion const d{from.c[at], from.n[at], from.s[at], from.w[at], from.e[at]};
  picture[at] =
      diffused(picture[at], d, from.c[i + 1 == n ? at : at + n], from.c[j + 1 == n ? at : at + 1]);
}

/// A multiple of 16, and no less than the region.
std::uint64_t side_of(std::uint64_t footprint) {
  auto const n = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(footprint) / 24));
  return n / 16 * 16;
}

class srad final : public file_workload {
 public:
  explicit srad(setup const& s)
      : reference_(side_of(s["footprint"]), s["iterations"], array_seed(s.seed, 0)),
        n_(reference_.n()),
        iterations_(s["iterations"]) {
    std::uint64_t const bytes = n_ * n_ * sizeof(float);
    objects_ = {
        {.name = "J",
         .bytes = bytes,
         .use = object_use::updated,
         .fill = fill_elements<float>([this](std::uint64_t i) { return reference_.start(i); }),
         .block = picture_block}};
    for (char const* const name : {"C", "E", "W", "S", "N"})
      objects_.push_back({.name = name, .bytes = bytes, .use = object_use::scratch});
    rules_ = {{.object = object_j,
               .type = element::f32,
               .absolute = 1e-5,
               .relative = 1e-4,
               .group = 1024}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    auto const blocks = static_cast<unsigned>((n_ + side - 1) / side);
    dim3 const grid(blocks, blocks), block(side, side);
    scratch_arrays const scratch{a.of<float>(object_c), a.of<float>(object_e),
                                 a.of<float>(object_w), a.of<float>(object_s),
                                 a.of<float>(object_n)};
    for (std::uint64_t k = 0; k < iterations_; ++k) {
      auto const rows = a.read(object_j, {.first = 0,
                                          .row_bytes = srad_region * sizeof(float),
                                          .pitch = n_ * sizeof(float),
                                          .rows = srad_region});
      float const q0 =
          noise_of([&](std::uint64_t i, std::uint64_t j) { return rows.row<float>(i)[j]; });
      launch_on(a,
                {{object_j, access::read},
                 {object_c, access::write},
                 {object_e, access::write},
                 {object_w, access::write},
                 {object_s, access::write},
                 {object_n, access::write}},
                find_coefficients, grid, block, a.of<float>(object_j), scratch, n_, q0);
      launch_on(a,
                {{object_j, access::read_write},
                 {object_c, access::read},
                 {object_e, access::read},
                 {object_w, access::read},
                 {object_s, access::read},
                 {object_n, access::read}},
                update_picture, grid, block, a.of<float>(object_j), scratch, n_);
    }
  }

  void prepare_reference() override { reference_.prepare(); }
  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    reference_.elements(first, to);
  }

  /// No element has become 0 or less.
  void check_more(work_files const& files, checks& c) const override {
    open_file_of const file(files.path(object_j), O_RDONLY);
    std::atomic<std::uint64_t> wrong{0};
    parallel_ranges(n_ * n_, 1 << 18, [&](std::uint64_t begin, std::uint64_t end) {
      std::vector<float> part(end - begin);
      file.read(part.data(), part.size() * sizeof(float), begin * sizeof(float));
      for (float const v : part)
        if (!(v > 0)) wrong.fetch_add(1, std::memory_order_relaxed);  // a counter
    });
    c.equal("elements that are not positive", wrong, 0);
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    std::uint64_t const bytes = n_ * n_ * sizeof(float);
    c.equal("fill_bytes", got.fill_bytes, bytes);
    c.equal("fills_skipped", got.fills_skipped, 0);
    c.equal("writeback_bytes", got.writeback_bytes, bytes);
    c.equal("bytes_h2d", got.bytes_h2d, 0);
    c.equal("bytes_d2h", got.bytes_d2h, bytes + iterations_ * bytes_around_region());
    c.equal("faults_write", got.faults_write, 0);
  }

 private:
  /// Bytes of the blocks that the region's rows lie in.
  [[nodiscard]] std::uint64_t bytes_around_region() const {
    std::uint64_t const bytes = n_ * n_ * sizeof(float);
    std::set<std::uint64_t> blocks;
    for (std::uint64_t r = 0; r < srad_region; ++r) {
      std::uint64_t const first = r * n_ * sizeof(float);
      for (std::uint64_t b = first / picture_block;
           b <= (first + srad_region * sizeof(float) - 1) / picture_block; ++b)
        blocks.insert(b);
    }
    std::uint64_t sum = 0;
    for (std::uint64_t const b : blocks) sum += std::min(picture_block, bytes - b * picture_block);
    return sum;
  }

  srad_reference reference_;
  std::uint64_t n_, iterations_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_srad_v2 = {
    .name = "srad_v2",
    .what = "removes speckles from a picture, with five arrays of scratch",
    .parameters = {{"footprint", 3 << 20, 4ull << 30, "bytes of the file and of scratch",
                    24 * srad_region* srad_region, 1ull << 44},
                   {"iterations", 2, 2, "iterations", 1, 1ull << 32}},
    .make = make_file_program<srad>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
