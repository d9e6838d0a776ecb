// TPACF (Parboil): the angular correlation of points on a sphere. The CPU writes three arrays of
// one object in three passes (ADSM, figure 12).
#include <apps/mapping/all.hpp>
#include <apps/mapping/random.hpp>
#include <apps/mapping/rolling_model.hpp>
#include <apps/mapping/session.hpp>
#include <apps/mapping/unnamed_file.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpufs::apps::workloads {

namespace {

constexpr unsigned bins = 20;
constexpr unsigned counts = bins + 1;  // and one for pairs that are in none

/// Cosines of 10^(k/5) minutes of arc, descending.
struct bin_edges {
  float edge[bins + 1];
};

/// Points of all sets: three arrays of one object.
struct points {
  float const *x, *y, *z;
  [[nodiscard]] __host__ __device__ float dot(std::uint64_t i, std::uint64_t j) const {
    return x[i] * x[j] + y[i] * y[j] + z[i] * z[j];
  }
};

/// The bin that a cosine is in: edge[b] >= cosine > edge[b + 1]; `bins` if it is in none.
__host__ __device__ inline unsigned bin_of(bin_edges const& e, float cosine) {
  if (cosine > e.edge[0] || cosine <= e.edge[bins]) return bins;
  unsigned low = 0, high = bins;
  while (high - low > 1) {
    unsigned const middle = (low + high) / 2;
    if (cosine > e.edge[middle])
      high = middle;
    else
      low = middle;
  }
  return low;
}

/// The sets that a block compares: the data (set 0) with themselves, each random set with itself,
/// and the data with each random set.
struct pair_of_sets {
  std::uint64_t first, second;
};
__host__ __device__ inline pair_of_sets sets_of(std::uint64_t block, std::uint64_t random_sets) {
  return block <= random_sets ? pair_of_sets{block, block} : pair_of_sets{0, block - random_sets};
}

__global__ void count_pairs(points p, std::uint64_t n, std::uint64_t random_sets, bin_edges edges,
                            unsigned* histograms) {
  __shared__ unsigned found[counts];
  for (unsigned b = threadIdx.x; b < counts; b += blockDim.x) found[b] = 0;
  __syncthreads();
  auto const sets = sets_of(blockIdx.x, random_sets);
  bool const is_same = sets.first == sets.second;
  for (std::uint64_t i = 0; i < n; ++i) {
    for (std::uint64_t j = (is_same ? i + 1 : 0) + threadIdx.x; j < n; j += blockDim.x)
      atomicAdd(&found[bin_of(edges, p.dot(sets.first * n + i, sets.second * n + j))], 1u);
  }
  __syncthreads();
  for (unsigned b = threadIdx.x; b < counts; b += blockDim.x)
    histograms[blockIdx.x * counts + b] = found[b];
}

bin_edges edges_of_bins() {
  bin_edges e;
  for (unsigned k = 0; k <= bins; ++k) {
    double const minutes = std::pow(10.0, k / 5.0);
    e.edge[k] = static_cast<float>(std::cos(minutes / 60 * std::numbers::pi / 180));
  }
  return e;
}

class tpacf final : public workload {
 public:
  explicit tpacf(setup const& of)
      : n_(of["n"]),
        random_sets_(of["sets"]),
        seed_(of.seed),
        is_smoke_(of.is_smoke),
        edges_(edges_of_bins()),
        file_(of.folder) {}

  void allocate(session& s) override {
    points_ = s.allocate<float>(3 * total());
    histograms_ = s.allocate<unsigned>(blocks() * counts);
    auto const sky = make_sky();
    file_.put(std::as_bytes(std::span(sky)), 0);
  }

  void run(session& s) override {
    write_points(points_.host(), s);
    s.send(points_);
    float const* const on_device = points_.device();
    points const p{on_device, on_device + total(), on_device + 2 * total()};
    s.launch({s.reads(points_), s.writes(histograms_)}, count_pairs, unsigned(blocks()), 256, p, n_,
             random_sets_, edges_, histograms_.device());
    s.synchronize();
    s.fetch(histograms_);
    for (std::uint64_t i = 0; i < histograms_.size(); ++i) pairs_ += histograms_.host()[i];
  }

  void reference() override {
    std::vector<float> all(3 * total());
    auto const sky = make_sky();
    write_passes(all.data(),
                 [&](std::uint64_t set) { return std::span(sky).subspan(2 * n_ * set, 2 * n_); });
    points const p{all.data(), all.data() + total(), all.data() + 2 * total()};
    wanted_.assign(blocks() * counts, 0);
    for (std::uint64_t b = 0; b < blocks(); ++b) count_block(p, b);
  }

  void check(session&, checks& c) override {
    for (std::uint64_t b = 0; b < blocks(); ++b) {
      std::uint64_t sum = 0;
      for (unsigned k = 0; k < counts; ++k) sum += histograms_.host()[b * counts + k];
      c.equal("pairs of a block", sum, pairs_of(b));
    }
    // At large sizes three of the blocks, one of each kind.
    if (is_smoke_) {
      reference();
    } else {
      float const* const at = points_.host();
      points const p{at, at + total(), at + 2 * total()};
      wanted_.assign(blocks() * counts, 0);
      for (auto const b : {std::uint64_t{0}, random_sets_, 2 * random_sets_}) count_block(p, b);
    }
    for (std::uint64_t i = 0; i < wanted_.size(); ++i) {
      std::uint64_t const b = i / counts;
      if (is_smoke_ || b == 0 || b == random_sets_ || b == 2 * random_sets_)
        c.equal("a count", histograms_.host()[i], wanted_[i]);
    }
  }

  std::vector<std::span<std::byte const>> results() override { return {histograms_.result()}; }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const in = points_.bytes(), out = histograms_.bytes();
    if (s.how().protocol == coherence_protocol::batch) {
      c.equal("bytes_h2d", got.bytes_h2d, in + out);
      c.equal("bytes_d2h", got.bytes_d2h, out + (s.is_declared() ? 0 : in));
      return;
    }
    c.equal("bytes_d2h", got.bytes_d2h, out);
    c.equal("faults_read", got.faults_read, s.blocks_of(histograms_));
    if (s.how().protocol == coherence_protocol::lazy) {
      c.equal("bytes_h2d", got.bytes_h2d, in);
    } else if (s.how().rolling != rolling_automatic) {
      auto const model = model_of(s.block_of(points_), s.how().rolling);
      c.equal("faults_write", got.faults_write, model.faults());
      c.equal("bytes_h2d", got.bytes_h2d, model.bytes_sent());
    } else {
      c.expect(got.bytes_h2d >= in, "fewer bytes were sent than the CPU has written");
    }
  }

 private:
  [[nodiscard]] std::uint64_t total() const { return (random_sets_ + 1) * n_; }
  [[nodiscard]] std::uint64_t blocks() const { return 2 * random_sets_ + 1; }
  [[nodiscard]] std::uint64_t pairs_of(std::uint64_t block) const {
    return block <= random_sets_ ? n_ * (n_ - 1) / 2 : n_ * n_;
  }

  /// Right ascension and declination of each point, in degrees.
  [[nodiscard]] std::vector<float> make_sky() const {
    std::vector<float> sky(2 * total());
    for (std::uint64_t i = 0; i < total(); ++i) {
      sky[2 * i] = 360 * u01(seed_, 2 * i);
      float const sine = 2 * u01(seed_, 2 * i + 1) - 1;
      sky[2 * i + 1] = std::asin(sine) * 180 / std::numbers::pi_v<float>;
    }
    return sky;
  }

  void write_points(float* all, session& s) {
    std::vector<float> set(2 * n_);
    write_passes(all, [&](std::uint64_t number) {
      auto const in = s.time(phase::io_read);
      file_.get(std::as_writable_bytes(std::span(set)), number * set.size() * sizeof(float));
      return std::span<float const>(set);
    });
  }

  /// Zeros, the points set by set, and a normalisation. `read(set)` returns the set's angles.
  /// Volatile: the three arrays are written side by side, not one after the other by memset().
  template <class Read>
  void write_passes(float* all, Read const& read) const {
    float volatile *const x = all, *const y = all + total(), *const z = all + 2 * total();
    for (std::uint64_t i = 0; i < total(); ++i) {
      x[i] = 0;
      y[i] = 0;
      z[i] = 0;
    }
    for (std::uint64_t set = 0; set <= random_sets_; ++set) {
      auto const angles = read(set);
      for (std::uint64_t k = 0; k < n_; ++k) {
        float const to_radians = std::numbers::pi_v<float> / 180;
        float const ra = angles[2 * k] * to_radians, dec = angles[2 * k + 1] * to_radians;
        x[set * n_ + k] = std::cos(ra) * std::cos(dec);
        y[set * n_ + k] = std::sin(ra) * std::cos(dec);
        z[set * n_ + k] = std::sin(dec);
      }
    }
    for (std::uint64_t i = 0; i < total(); ++i) {
      float const here[] = {x[i], y[i], z[i]};
      float const length = std::sqrt(here[0] * here[0] + here[1] * here[1] + here[2] * here[2]);
      x[i] = here[0] / length;
      y[i] = here[1] / length;
      z[i] = here[2] / length;
    }
  }

  void count_block(points const& p, std::uint64_t block) {
    auto const sets = sets_of(block, random_sets_);
    for (std::uint64_t i = 0; i < n_; ++i)
      for (std::uint64_t j = sets.first == sets.second ? i + 1 : 0; j < n_; ++j)
        ++wanted_[block * counts +
                  bin_of(edges_, p.dot(sets.first * n_ + i, sets.second * n_ + j))];
  }

  [[nodiscard]] rolling_model model_of(std::uint64_t block, std::uint64_t rolling) const {
    rolling_model model(points_.bytes(), block, rolling);
    for (unsigned pass = 0; pass < 3; ++pass) {
      for (std::uint64_t i = 0; i < total(); ++i)
        for (std::uint64_t array = 0; array < 3; ++array)
          model.write((array * total() + i) * sizeof(float));
    }
    model.release();
    return model;
  }

  std::uint64_t n_, random_sets_, seed_;
  bool is_smoke_;
  bin_edges edges_;
  unnamed_file file_;
  object<float> points_;
  object<unsigned> histograms_;
  std::uint64_t pairs_ = 0;
  std::vector<unsigned> wanted_;
};

}  // namespace

description const workload_tpacf{
    .name = "tpacf",
    .what = "Parboil TPACF: the CPU writes three arrays of one object in passes; pairs are counted",
    .parameters = {{"n", 700, 10'391, "points of a set", 1, 65'535},
                   {"sets", 2, 100, "random sets", 1, 1 << 20}},
    .make = make_workload<tpacf>,
};

}  // namespace gpufs::apps::workloads
