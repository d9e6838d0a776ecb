// A 3-D acoustic wave with a source and dumps (ADSM, figure 9): 8th order in space, 2nd in time.
// The CPU adds to one point between the steps, and the whole array goes to a file now and then.
#include <apps/mapping/all.hpp>
#include <apps/mapping/session.hpp>
#include <apps/mapping/unnamed_file.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace gpufs::apps::workloads {

namespace {

constexpr std::uint64_t ghost = 4;  // a border of zeros on each side

/// n^3 points in a volume of edge n + 8. x runs fastest.
struct volume {
  std::uint64_t n;
  [[nodiscard]] __host__ __device__ std::uint64_t edge() const { return n + 2 * ghost; }
  [[nodiscard]] __host__ __device__ std::uint64_t size() const { return edge() * edge() * edge(); }
  [[nodiscard]] __host__ __device__ std::uint64_t at(std::uint64_t x, std::uint64_t y,
                                                     std::uint64_t z) const {
    return ((z + ghost) * edge() + y + ghost) * edge() + x + ghost;
  }
  [[nodiscard]] std::uint64_t centre() const { return at(n / 2, n / 2, n / 2); }
};

/// The sums are symmetric, so that a symmetric field stays so exactly.
__host__ __device__ inline float next_value(float const* u, float before, float v2,
                                            std::int64_t edge) {
  constexpr float c[] = {-205.0f / 72, 8.0f / 5, -1.0f / 5, 8.0f / 315, -1.0f / 560};
  std::int64_t const row = edge, plane = edge * edge;
  float laplacian = 3 * c[0] * u[0];
  for (std::int64_t k = 1; k <= 4; ++k) {
    float const x = u[k] + u[-k], y = u[k * row] + u[-k * row], z = u[k * plane] + u[-k * plane];
    laplacian += c[k] * ((x + y) + z);
  }
  return (2 * u[0] - before) + v2 * laplacian;
}

/// One step: a block for a column of 32 x 8 points, along z. The next field replaces the former.
__global__ void step_wave(float const* u, float* former, float const* v2, volume v) {
  std::uint64_t const x = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  std::uint64_t const y = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  if (x >= v.n || y >= v.n) return;
  for (std::uint64_t z = 0; z < v.n; ++z) {
    auto const at = v.at(x, y, z);
    former[at] = next_value(u + at, former[at], v2[at], static_cast<std::int64_t>(v.edge()));
  }
}

constexpr float courant = 0.4f;  // v dt / h; stable up to 0.4528

float source_at(std::uint64_t t) {
  float const phase = std::numbers::pi_v<float> * (static_cast<float>(t) / 12 - 1);
  return (1 - 2 * phase * phase) * std::exp(-phase * phase);
}

class wave final : public workload {
 public:
  explicit wave(setup const& of)
      : v_{of["n"]}, steps_(of["steps"]), every_(of["every"]), file_(of.folder) {}

  void allocate(session& s) override {
    for (auto& u : u_) u = s.allocate<float>(v_.size(), {.block = 64 << 10});
    v2_ = s.allocate<float>(v_.size());
  }

  void run(session& s) override {
    std::fill_n(v2_.host(), v_.size(), courant * courant);
    s.send(v2_);
    auto const tiles = [&](std::uint64_t edge) { return unsigned((v_.n + edge - 1) / edge); };
    for (std::uint64_t t = 0; t < steps_; ++t) {
      auto& now = u_[t % 2];
      auto& next = u_[(t + 1) % 2];
      s.launch({s.reads(now), s.reads_writes(next), s.reads(v2_)}, step_wave,
               dim3(tiles(32), tiles(8)), dim3(32, 8), now.device(), next.device(), v2_.device(),
               v_);
      s.synchronize();
      s.fetch(next, v_.centre(), 1);
      next.host()[v_.centre()] += source_at(t);
      s.send(next, v_.centre(), 1);
      if ((t + 1) % every_ == 0) s.write(file_.fd(), dumps_++ * next.bytes(), next, 0, v_.size());
    }
  }

  void reference() override {
    std::vector<float> now(v_.size()), next(v_.size());
    wanted_.clear();
    for (std::uint64_t t = 0; t < steps_; ++t) {
      for (std::uint64_t z = 0; z < v_.n; ++z)
        for (std::uint64_t y = 0; y < v_.n; ++y)
          for (std::uint64_t x = 0; x < v_.n; ++x) {
            auto const at = v_.at(x, y, z);
            next[at] = next_value(&now[at], next[at], courant * courant,
                                  static_cast<std::int64_t>(v_.edge()));
          }
      next[v_.centre()] += source_at(t);
      std::swap(now, next);
      if ((t + 1) % every_ == 0) wanted_.push_back(now);
    }
  }

  void check(session&, checks& c) override {
    bool const is_small = v_.n <= 64;  // the reference takes a second there
    if (is_small) reference();
    std::vector<float> dump(v_.size());
    for (std::uint64_t d = 0; d < dumps_; ++d) {
      file_.get(std::as_writable_bytes(std::span(dump)), d * dump.size() * sizeof(float));
      check_dump(dump, c);
      if (!is_small) continue;
      for (std::uint64_t i = 0; i < dump.size(); ++i)
        c.near("dump", i, dump[i], wanted_[d][i], 0, 0);
    }
  }

  // By hand the last dump has brought the whole array.
  std::vector<std::span<std::byte const>> results() override {
    if (steps_ % every_ != 0) return {};
    return {u_[steps_ % 2].result()};
  }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const all = v2_.bytes();
    c.equal("merged_bytes", got.merged_bytes, 0);
    if (s.how().protocol == coherence_protocol::batch) {
      c.equal("bytes_h2d", got.bytes_h2d, steps_ * 3 * all);
      c.equal("bytes_d2h", got.bytes_d2h, steps_ * (s.is_declared() ? 1 : 3) * all);
      c.equal("faults", got.faults_read + got.faults_write, 0);
      return;
    }
    // The source's block goes back and forth. What it has been written to stays with the CPU.
    std::uint64_t const block = s.block_of(u_[0]), at = v_.centre() * sizeof(float) / block * block;
    std::uint64_t const moves = std::min(block, all - at);
    c.equal("bytes_h2d", got.bytes_h2d, all + (steps_ - 1) * moves);
    c.equal("fault bytes", got.fault_read_bytes + got.fault_write_bytes, steps_ * moves);
    c.equal("io_d2h_bytes", got.io_d2h_bytes, dumps_ * (all - moves));
    c.equal("faults_write", got.faults_write, s.blocks_of(v2_) + steps_);
  }

 private:
  /// Symmetric about the source where the volume is, and not all zeros.
  void check_dump(std::vector<float> const& u, checks& c) const {
    bool is_symmetric = true, is_finite = true;
    float largest = 0;
    for (std::uint64_t z = 0; z < v_.n; ++z)
      for (std::uint64_t y = 0; y < v_.n; ++y)
        for (std::uint64_t x = 0; x < v_.n; ++x) {
          float const here = u[v_.at(x, y, z)];
          is_finite = is_finite && std::isfinite(here);
          largest = std::max(largest, std::abs(here));
          if (v_.n % 2 == 0) continue;
          is_symmetric = is_symmetric && here == u[v_.at(v_.n - 1 - x, y, z)] &&
                         here == u[v_.at(x, v_.n - 1 - y, z)] &&
                         here == u[v_.at(x, y, v_.n - 1 - z)];
        }
    c.expect(is_symmetric, "a dump is not symmetric about the source");
    c.expect(is_finite && largest > 0, "a dump has no wave");
  }

  volume v_;
  std::uint64_t steps_, every_;
  unnamed_file file_;
  object<float> u_[2], v2_;
  std::uint64_t dumps_ = 0;
  std::vector<std::vector<float>> wanted_;  // of each dump
};

}  // namespace

description const workload_wave{
    .name = "wave",
    .what = "3-D wave: the CPU adds a source to one point in each step; dumps go to a file",
    .parameters = {{"n", 13, 256, "points of an edge", 1, 500'000},
                   {"steps", 10, 50, "steps in time", 1, 1ull << 32},
                   {"every", 5, 10, "steps between two dumps", 1, 1ull << 32}},
    .make = make_workload<wave>,
};

}  // namespace gpufs::apps::workloads
