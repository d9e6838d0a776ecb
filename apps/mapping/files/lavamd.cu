// lavaMD (DRAGON, from Rodinia): forces between particles of neighbouring boxes. What a block reads
// depends on a record of the file.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>

#include <fcntl.h>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_box, object_rv, object_qv, object_fv };

constexpr unsigned particles = 100;  // of a box
constexpr double alpha = 0.5;

struct neighbour {
  std::int32_t x, y, z, number;
  std::int64_t offset;  ///< of the box's first particle
};

/// A record of the file.
struct box_record {
  std::int32_t x, y, z, number;
  std::int64_t offset;
  std::int32_t neighbours, unused;
  neighbour next[26];
};
static_assert(sizeof(box_record) == 656);

/// Of a particle, or of the forces on it.
struct four {
  double v, x, y, z;
};

/// Adds what particle b, with charge q, does to a.
__host__ __device__ inline void add_force(four& force, four const& a, four const& b, double q) {
  double const r2 = a.v + b.v - (a.x * b.x + a.y * b.y + a.z * b.z);
  double const w = std::exp(-2.0 * alpha * alpha * r2);
  double const fs = 2.0 * w;
  force.v += q * w;
  force.x += q * fs * (a.x - b.x);
  force.y += q * fs * (a.y - b.y);
  force.z += q * fs * (a.z - b.z);
}

/// A block for each box, a thread for each of its particles.
__global__ void __launch_bounds__(128)
    find_forces(box_record const* boxes, four const* rv, double const* qv, four* fv) {
  __shared__ four others[particles];
  __shared__ double charges[particles];
  box_record const& home = boxes[blockIdx.x];
  unsigned const i = threadIdx.x;
  four const mine = i < particles ? rv[home.offset + i] : four{};
  four force{};
  for (std::int32_t k = -1; k < home.neighbours; ++k) {
    std::int64_t const offset = k < 0 ? home.offset : home.next[k].offset;
    __syncthreads();
    if (i < particles) {
      others[i] = rv[offset + i];
      charges[i] = qv[offset + i];
    }
    __syncthreads();
    if (i < particles)
      for (unsigned j = 0; j < particles; ++j) add_force(force, mine, others[j], charges[j]);
  }
  if (i < particles) fv[home.offset + i] = force;
}

std::uint64_t side_of(std::uint64_t footprint) {
  // The cube root may be rounded to just below a whole number.
  auto side = static_cast<std::uint64_t>(std::cbrt(static_cast<double>(footprint) / 8000));
  if ((side + 1) * (side + 1) * (side + 1) * 8000 <= footprint) ++side;
  return side;
}

class lavamd final : public file_workload {
 public:
  explicit lavamd(setup const& s)
      : seed_(s.seed), d_(side_of(s["footprint"])), has_equal_charges_(s["equal"] != 0) {
    std::uint64_t const n = boxes() * particles;
    objects_ = {{.name = "box",
                 .bytes = boxes() * sizeof(box_record),
                 .fill = fill_records<box_record>([this](std::uint64_t i) { return box(i); })},
                {.name = "rv",
                 .bytes = n * sizeof(four),
                 .fill = fill_elements<double>([this](std::uint64_t i) { return value(1, i); })},
                {.name = "qv",
                 .bytes = n * sizeof(double),
                 .fill = fill_elements<double>([this](std::uint64_t i) { return charge(i); })},
                {.name = "fv", .bytes = n * sizeof(four), .use = object_use::output}};
    rules_ = {{.object = object_fv,
               .type = element::f64,
               .absolute = 1e-9,
               .relative = 1e-10,
               .group = 4 * particles,
               .most_groups = 1000}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    launch_on(a,
              {{object_box, access::read},
               {object_rv, access::read},
               {object_qv, access::read},
               {object_fv, access::write}},
              find_forces, static_cast<unsigned>(boxes()), 128, a.of<box_record>(object_box),
              a.of<four>(object_rv), a.of<double>(object_qv), a.of<four>(object_fv));
  }

  /// One box.
  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    box_record const home = box(first / (4 * particles));
    std::vector<four> mine, forces(particles);
    for (unsigned i = 0; i < particles; ++i)
      mine.push_back(particle(static_cast<std::uint64_t>(home.offset) + i));
    for (std::int32_t k = -1; k < home.neighbours; ++k) {
      auto const offset = static_cast<std::uint64_t>(k < 0 ? home.offset : home.next[k].offset);
      for (unsigned j = 0; j < particles; ++j) {
        four const other = particle(offset + j);
        double const q = charge(offset + j);
        for (unsigned i = 0; i < particles; ++i) add_force(forces[i], mine[i], other, q);
      }
    }
    for (unsigned i = 0; i < particles; ++i) {
      to[4 * i] = forces[i].v;
      to[4 * i + 1] = forces[i].x;
      to[4 * i + 2] = forces[i].y;
      to[4 * i + 3] = forces[i].z;
    }
  }

  /// With equal charges every force has an opposite one.
  void check_more(work_files const& files, checks& c) const override {
    if (!has_equal_charges_) return;
    open_file_of const file(files.path(object_fv), O_RDONLY);
    std::mutex mutex;
    double sum = 0, size = 0;
    parallel_ranges(boxes() * particles, 1 << 14, [&](std::uint64_t begin, std::uint64_t end) {
      std::vector<four> part(end - begin);
      file.read(part.data(), part.size() * sizeof(four), begin * sizeof(four));
      double mine = 0, mine_size = 0;
      for (auto const& f : part) {
        mine += f.x;
        mine_size += std::abs(f.x);
      }
      std::lock_guard const lock(mutex);
      sum += mine;
      size += mine_size;
    });
    c.expect(std::abs(sum) <= 1e-9 * size, "forces along x add up to " + std::to_string(sum));
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    check_streamed(got, {.read = 4656 * boxes(), .written = 3200 * boxes()}, c);
  }

 private:
  [[nodiscard]] std::uint64_t boxes() const { return d_ * d_ * d_; }

  /// 0.1, 0.2, ..., 1.0
  [[nodiscard]] double value(std::uint64_t array, std::uint64_t i) const {
    return static_cast<double>(generate(array_seed(seed_, array), i) % 10 + 1) / 10;
  }
  [[nodiscard]] double charge(std::uint64_t i) const {
    return has_equal_charges_ ? 1 : value(2, i);
  }
  [[nodiscard]] four particle(std::uint64_t i) const {
    return {value(1, 4 * i), value(1, 4 * i + 1), value(1, 4 * i + 2), value(1, 4 * i + 3)};
  }

  [[nodiscard]] box_record box(std::uint64_t number) const {
    auto const d = static_cast<std::int64_t>(d_);
    auto const n = static_cast<std::int64_t>(number);
    std::int64_t const x = n % d, y = n / d % d, z = n / (d * d);
    box_record b{};
    b.x = static_cast<std::int32_t>(x);
    b.y = static_cast<std::int32_t>(y);
    b.z = static_cast<std::int32_t>(z);
    b.number = static_cast<std::int32_t>(n);
    b.offset = n * particles;
    for (int k = 0; k < 27; ++k) {
      std::int64_t const nx = x + k % 3 - 1, ny = y + k / 3 % 3 - 1, nz = z + k / 9 - 1;
      bool const is_there = nx >= 0 && nx < d && ny >= 0 && ny < d && nz >= 0 && nz < d && k != 13;
      if (!is_there) continue;
      std::int64_t const other = (nz * d + ny) * d + nx;
      b.next[b.neighbours++] = {static_cast<std::int32_t>(nx), static_cast<std::int32_t>(ny),
                                static_cast<std::int32_t>(nz), static_cast<std::int32_t>(other),
                                other * particles};
    }
    return b;
  }

  std::uint64_t seed_, d_;
  bool has_equal_charges_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_lavaMD = {
    .name = "lavaMD",
    .what = "forces between particles of neighbouring boxes",
    .parameters = {{"footprint", 512 << 10, 4ull << 30, "bytes of all files", 8000, 1ull << 43},
                   {"equal", 0, 0, "1: equal charges, whose forces add up to 0", 0, 1}},
    .make = make_file_program<lavamd>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
