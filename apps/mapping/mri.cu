// MRI-Q and MRI-FHD (Parboil): samples in k-space and points of a volume come from a file straight
// into objects; two sums over the samples are made for each point, and go to a file.
#include <apps/common/generator.hpp>
#include <apps/common/program.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/random.hpp>
#include <apps/mapping/session.hpp>
#include <apps/mapping/unnamed_file.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <string>

namespace gpufs::apps::workloads {

namespace {

/// A sample: where it is, and its weights for the two sums. MRI-Q has one weight, the magnitude.
struct sample {
  float kx, ky, kz, re, im;
};

struct sums {
  double re = 0, im = 0;
};

/// Adds one sample to the sums of a point.
template <bool IsFhd, class Real>
__host__ __device__ inline void add_sample(sample const& s, Real x, Real y, Real z, Real& re,
                                           Real& im) {
  Real const angle = Real(2 * std::numbers::pi) * (s.kx * x + s.ky * y + s.kz * z);
  Real const c = std::cos(angle), n = std::sin(angle);
  re += IsFhd ? s.re * c - s.im * n : s.re * c;
  im += IsFhd ? s.im * c + s.re * n : s.re * n;
}

/// The weights of all samples, out of their phases, and their data for MRI-FHD.
template <bool IsFhd>
__global__ void weigh(float const* phi_re, float const* phi_im, float const* d_re,
                      float const* d_im, float* re, float* im, std::uint64_t n) {
  auto const k = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (k >= n) return;
  if constexpr (IsFhd) {
    re[k] = phi_re[k] * d_re[k] + phi_im[k] * d_im[k];
    im[k] = phi_re[k] * d_im[k] - phi_im[k] * d_re[k];
  } else {
    re[k] = phi_re[k] * phi_re[k] + phi_im[k] * phi_im[k];
  }
}

/// Adds `count` samples to the sums of all points.
template <bool IsFhd>
__global__ void add_samples(sample const* samples, std::uint64_t count, float const* x,
                            float const* y, float const* z, float* re, float* im,
                            std::uint64_t points) {
  auto const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= points) return;
  float const px = x[i], py = y[i], pz = z[i];
  float sum_re = 0, sum_im = 0;
  for (std::uint64_t k = 0; k < count; ++k)
    add_sample<IsFhd>(samples[k], px, py, pz, sum_re, sum_im);
  re[i] += sum_re;
  im[i] += sum_im;
}

template <bool IsFhd>
class mri final : public workload {
 public:
  explicit mri(setup const& of)
      : points_(of["points"]),
        samples_(of["samples"]),
        tile_(of["tile"]),
        read_back_(of["readback"]),
        seed_(of.seed),
        is_smoke_(of.is_smoke),
        in_(of.folder),
        out_(of.folder) {
    if (read_back_ > points_ * sizeof(float))
      throw usage_error("--set readback=" + std::to_string(read_back_) +
                        ": must be at most 4 bytes for each of the points");
  }

  void allocate(session& s) override {
    for (auto& c : place_) c = s.allocate<float>(points_);
    for (auto& p : phase_and_data_) p = s.allocate<float>(samples_);
    for (auto& w : weight_) w = s.allocate<float>(samples_);
    table_ = s.allocate<sample>(samples_);
    for (auto& q : result_) q = s.allocate<float>(points_);
    make_file();
  }

  void run(session& s) override {
    std::uint64_t at = 0;
    auto const header = read_plain<std::uint32_t>(s, at, 2);
    std::uint64_t const samples = header[0], points = header[1];
    std::vector<float> k[3];
    for (auto& axis : k) axis = read_plain<float>(s, at, samples);
    for (auto& c : place_) read_object(s, at, c);
    for (auto& p : phase_and_data_) read_object(s, at, p);
    compute_weights(s);
    for (auto& w : weight_) s.fetch(w);
    fill_table(k, weight_[0].host(), IsFhd ? weight_[last_weight].host() : nullptr);
    s.send(table_);
    for (std::uint64_t first = 0; first < samples; first += tile_) {
      s.launch({s.reads(table_), s.reads(place_[0]), s.reads(place_[1]), s.reads(place_[2]),
                s.reads_writes(result_[0]), s.reads_writes(result_[1])},
               add_samples<IsFhd>, blocks(points), 256, table_.device() + first,
               std::min(tile_, samples - first), place_[0].device(), place_[1].device(),
               place_[2].device(), result_[0].device(), result_[1].device(), points);
      s.synchronize();
    }
    give_result(s);
  }

  void reference() override {
    wanted_.resize(points_);
    for (std::uint64_t i = 0; i < points_; ++i) wanted_[i] = sums_of(i);
  }

  void check(session&, checks& c) override {
    std::uint64_t const known = known_points();
    std::vector<float> re(known), im(known);
    std::memcpy(re.data(), result_[0].host(), known * sizeof(float));
    if (read_back_ == 0) {
      get(re, sizeof(std::uint32_t));
      get(im, sizeof(std::uint32_t) + points_ * sizeof(float));
    }
    std::vector<std::uint64_t> indices(is_smoke_ ? known : std::min<std::uint64_t>(known, 300));
    for (std::uint64_t k = 0; k < indices.size(); ++k)
      indices[k] = is_smoke_ ? k : generate_below(seed_ + 9, k, known);
    std::vector<sums> wanted;
    double largest = 0;
    for (auto const i : indices) {
      wanted.push_back(sums_of(i));
      largest = std::max({largest, std::abs(wanted.back().re), std::abs(wanted.back().im)});
    }
    for (std::uint64_t k = 0; k < indices.size(); ++k) {
      c.near("real sum", indices[k], re[indices[k]], wanted[k].re, 1e-4 * largest, 2e-3);
      if (read_back_ == 0)
        c.near("imaginary sum", indices[k], im[indices[k]], wanted[k].im, 1e-4 * largest, 2e-3);
    }
  }

  std::vector<std::span<std::byte const>> results() override {
    if (read_back_ != 0) return {};
    return {result_[0].result(), result_[1].result()};
  }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const per_sample = samples_ * sizeof(float), per_point = points_ * sizeof(float);
    std::uint64_t const in = phases * per_sample + 3 * per_point, table = table_.bytes();
    std::uint64_t const tiles = (samples_ + tile_ - 1) / tile_;
    if (s.how().protocol == coherence_protocol::batch) {
      std::uint64_t const all = in + weights * per_sample + table + 2 * per_point;
      if (s.is_declared()) {
        std::uint64_t const first = (phases + weights) * per_sample;
        c.equal("bytes_h2d", got.bytes_h2d, first + tiles * (table + 5 * per_point));
        c.equal("bytes_d2h", got.bytes_d2h, weights * per_sample + tiles * 2 * per_point);
      } else {
        c.equal("bytes_h2d", got.bytes_h2d, (1 + tiles) * all);
        c.equal("bytes_d2h", got.bytes_d2h, (1 + tiles) * all);
      }
      return;
    }
    // Undeclared, the first call may have written the table, so the CPU's writes fetch its blocks.
    std::uint64_t const fetched = s.is_declared() ? 0 : table;
    // Where only a part of one result is looked at, rolling fetches that part's blocks.
    std::uint64_t const block = s.block_of(result_[0]);
    std::uint64_t const looked_at = std::min(per_point, (read_back_ + block - 1) / block * block);
    c.equal("bytes_h2d", got.bytes_h2d, in + table);
    c.equal("bytes_d2h", got.bytes_d2h,
            weights * per_sample + fetched + (read_back_ == 0 ? 2 * per_point : looked_at));
    c.equal("io_d2h_bytes", got.io_d2h_bytes, read_back_ == 0 ? 2 * per_point : 0);
    c.equal("fault_write_bytes", got.fault_write_bytes, fetched);
  }

 private:
  static constexpr std::uint64_t phases = IsFhd ? 4 : 2;  // arrays of phases and of data
  static constexpr std::uint64_t weights = IsFhd ? 2 : 1;
  static constexpr std::uint64_t last_weight = weights - 1;

  static unsigned blocks(std::uint64_t threads) { return unsigned((threads + 255) / 256); }
  [[nodiscard]] std::uint64_t known_points() const {
    return read_back_ == 0 ? points_ : read_back_ / sizeof(float);
  }

  void get(std::vector<float>& to, std::uint64_t offset) const {
    out_.get(std::as_writable_bytes(std::span(to)), offset);
  }

  /// In [-1, 1), but k in [-0.5, 0.5).
  [[nodiscard]] float value_of(std::uint64_t array, std::uint64_t i) const {
    float const u = u01(seed_ + array, i);
    return array < 3 ? u - 0.5f : 2 * u - 1;
  }
  /// Points of a cube grid.
  [[nodiscard]] float place_of(std::uint64_t axis, std::uint64_t i) const {
    auto edge = std::max<std::uint64_t>(1, std::uint64_t(std::cbrt(double(points_))));
    std::uint64_t const index[] = {i % edge, i / edge % edge, i / edge / edge};
    return static_cast<float>(index[axis]);
  }

  void make_file() {
    std::uint32_t const header[] = {std::uint32_t(samples_), std::uint32_t(points_)};
    in_.put(std::as_bytes(std::span(header)), 0);
    std::uint64_t at = sizeof(header);
    auto const put = [&](std::uint64_t count, auto const& value) {
      std::vector<float> all(count);
      for (std::uint64_t i = 0; i < count; ++i) all[i] = value(i);
      in_.put(std::as_bytes(std::span(all)), at);
      at += count * sizeof(float);
    };
    for (std::uint64_t a = 0; a < 3; ++a)
      put(samples_, [&](std::uint64_t i) { return value_of(a, i); });
    for (std::uint64_t a = 0; a < 3; ++a)
      put(points_, [&](std::uint64_t i) { return place_of(a, i); });
    for (std::uint64_t a = 0; a < phases; ++a)
      put(samples_, [&](std::uint64_t i) { return value_of(3 + a, i); });
  }

  template <class T>
  std::vector<T> read_plain(session& s, std::uint64_t& at, std::uint64_t count) {
    auto const in = s.time(phase::io_read);
    std::vector<T> to(count);
    in_.get(std::as_writable_bytes(std::span(to)), at);
    at += count * sizeof(T);
    return to;
  }
  void read_object(session& s, std::uint64_t& at, object<float>& to) {
    s.read(in_.fd(), at, to, 0, to.size());
    at += to.bytes();
  }

  void compute_weights(session& s) {
    auto const& p = phase_and_data_;
    float* const im = IsFhd ? weight_[last_weight].device() : nullptr;
    float const* const d_re = IsFhd ? p[phases - 2].device() : nullptr;
    float const* const d_im = IsFhd ? p[phases - 1].device() : nullptr;
    s.launch({s.reads(p[0]), s.reads(p[1]), s.reads(p[phases - 2]), s.reads(p[phases - 1]),
              s.writes(weight_[0]), s.writes(weight_[last_weight])},
             weigh<IsFhd>, blocks(samples_), 256, p[0].device(), p[1].device(), d_re, d_im,
             weight_[0].device(), im, samples_);
    s.synchronize();
  }

  void fill_table(std::vector<float> const (&k)[3], float const* re, float const* im) {
    sample* const table = table_.host();
    for (std::uint64_t i = 0; i < samples_; ++i)
      table[i] = {k[0][i], k[1][i], k[2][i], re[i], IsFhd ? im[i] : 0.0f};
  }

  void give_result(session& s) {
    if (read_back_ != 0) {
      s.fetch(result_[0], 0, known_points());
      float volatile const* const re = result_[0].host();
      for (std::uint64_t i = 0; i < known_points(); ++i) looked_at_ += re[i];
      return;
    }
    auto const count = static_cast<std::uint32_t>(points_);
    {
      auto const in = s.time(phase::io_write);
      out_.put(std::as_bytes(std::span(&count, 1)), 0);
    }
    s.write(out_.fd(), sizeof(count), result_[0], 0, points_);
    s.write(out_.fd(), sizeof(count) + result_[0].bytes(), result_[1], 0, points_);
  }

  [[nodiscard]] sums sums_of(std::uint64_t i) const {
    sums to;
    double const x = place_of(0, i), y = place_of(1, i), z = place_of(2, i);
    for (std::uint64_t k = 0; k < samples_; ++k) {
      float const pr = value_of(3, k), pi = value_of(4, k);
      sample s{value_of(0, k), value_of(1, k), value_of(2, k), pr * pr + pi * pi, 0};
      if constexpr (IsFhd) {
        float const dr = value_of(5, k), di = value_of(6, k);
        s.re = pr * dr + pi * di;
        s.im = pr * di - pi * dr;
      }
      add_sample<IsFhd>(s, x, y, z, to.re, to.im);
    }
    return to;
  }

  std::uint64_t points_, samples_, tile_, read_back_, seed_;
  bool is_smoke_;
  unnamed_file in_, out_;
  object<float> place_[3], phase_and_data_[phases], weight_[weights], result_[2];
  object<sample> table_;
  float looked_at_ = 0;
  std::vector<sums> wanted_;
};

}  // namespace

description const workload_mri_q{
    .name = "mri-q",
    .what =
        "Parboil MRI-Q: a file is read into objects; the CPU builds a table between two kernels",
    .parameters = {{"points", 343, 262'144, "points of the volume", 1, UINT32_MAX},
                   {"samples", 40, 2'048, "samples in k-space", 1, UINT32_MAX},
                   {"tile", 16, 1'024, "samples of a launch", 1, UINT32_MAX},
                   {"readback", 0, 0, "the CPU looks at so many bytes; 0: all goes to a file", 0,
                    4ull * UINT32_MAX, 4}},
    .make = make_workload<mri<false>>,
};

description const workload_mri_fhd{
    .name = "mri-fhd",
    .what = "Parboil MRI-FHD: as mri-q, with complex samples",
    .parameters = {{"points", 343, 262'144, "points of the volume", 1, UINT32_MAX},
                   {"samples", 40, 2'048, "samples in k-space", 1, UINT32_MAX},
                   {"tile", 16, 512, "samples of a launch", 1, UINT32_MAX},
                   {"readback", 0, 0, "the CPU looks at so many bytes; 0: all goes to a file", 0,
                    4ull * UINT32_MAX, 4}},
    .make = make_workload<mri<true>>,
};

}  // namespace gpufs::apps::workloads
