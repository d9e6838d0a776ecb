// RPES (Parboil): two-electron integrals over s-type Gaussians. Many calls go through a work list
// of the CPU, others add the parts of each integral up.
#include <apps/mapping/all.hpp>
#include <apps/mapping/random.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace gpufs::apps::workloads {

namespace {

constexpr unsigned primitives = 3;      // of a shell
constexpr unsigned per_quadruple = 81;  // products of four primitives
constexpr unsigned threads = 64;        // of a block; a power of two, as sums halve it
constexpr unsigned most_shells = 470;   // more have more blocks than 32 bits count

/// Gaussians around one centre.
struct shell {
  float place[3];
  float exponent[primitives];
  float factor[primitives];
};

/// What a block computes: products first .. first + 63 of a quadruple of shells.
struct work {
  std::uint16_t shells[4];
  std::uint32_t first;
  std::uint32_t quadruple;
};
static_assert(sizeof(work) == 16);

/// The blocks of a quadruple.
struct extent {
  std::uint32_t first, blocks;
};

/// F0 of Boys.
template <class Real>
__host__ __device__ inline Real boys(Real x) {
  if (x < Real(3e-7)) return 1 - x / 3;
  return std::sqrt(Real(std::numbers::pi) / x) / 2 * std::erf(std::sqrt(x));
}

/// Product `number` of four primitives, of shells s[0] .. s[3].
template <class Real>
__host__ __device__ inline Real product(shell const* const (&s)[4], unsigned number) {
  Real a[4], c = 1;
  for (unsigned i = 0; i < 4; ++i, number /= primitives) {
    a[i] = s[i]->exponent[number % primitives];
    c *= s[i]->factor[number % primitives];
  }
  Real const left = a[0] + a[1], right = a[2] + a[3];
  Real const rho = left * right / (left + right);
  Real distance = 0, power = 0;
  for (unsigned d = 0; d < 3; ++d) {
    Real const r[] = {s[0]->place[d], s[1]->place[d], s[2]->place[d], s[3]->place[d]};
    Real const p = (a[0] * r[0] + a[1] * r[1]) / left, q = (a[2] * r[2] + a[3] * r[3]) / right;
    distance += (p - q) * (p - q);
    power += a[0] * a[1] * (r[0] - r[1]) * (r[0] - r[1]) / left +
             a[2] * a[3] * (r[2] - r[3]) * (r[2] - r[3]) / right;
  }
  Real const pi = Real(std::numbers::pi), root = pi / std::sqrt(left * right);
  return c * std::sqrt(4 / pi * rho) * root * root * root * std::exp(-power) * boys(rho * distance);
}

/// A block for each record of the work list, from record `first` on.
__global__ void integrate(shell const* shells, work const* list, std::uint64_t first, float* sums) {
  __shared__ float part[threads];
  auto const block = first + blockIdx.x;
  work const w = list[block];
  unsigned const number = w.first + threadIdx.x;
  float mine = 0;
  if (number < per_quadruple) {
    shell const* const s[] = {shells + w.shells[0], shells + w.shells[1], shells + w.shells[2],
                              shells + w.shells[3]};
    mine = product<float>(s, number);
  }
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half != 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[block] = part[0];
}

/// Adds the sums of each quadruple's blocks up: a thread for each, from `first` on.
__global__ void reduce(extent const* extents, float const* sums, std::uint64_t first,
                       std::uint64_t count, float* integrals) {
  auto const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  extent const e = extents[first + i];
  float sum = 0;
  for (unsigned b = 0; b < e.blocks; ++b) sum += sums[e.first + b];
  integrals[first + i] = sum;
}

class rpes final : public workload {
 public:
  explicit rpes(setup const& of)
      : shell_count_(of["shells"]),
        per_call_(of["per-call"]),
        seed_(of.seed),
        is_smoke_(of.is_smoke) {}

  void allocate(session& s) override {
    shells_ = s.allocate<shell>(shell_count_);
    list_ = s.allocate<work>(quadruples() * blocks_of_each);
    extents_ = s.allocate<extent>(quadruples());
    sums_ = s.allocate<float>(quadruples() * blocks_of_each, {.is_gpu_only = true});
    integrals_ = s.allocate<float>(quadruples());
  }

  void run(session& s) override {
    for (std::uint64_t i = 0; i < shell_count_; ++i) shells_.host()[i] = shell_of(i);
    write_list();
    s.send(shells_);
    s.send(list_);
    s.send(extents_);
    for (std::uint64_t first = 0; first < list_.size(); first += per_call_) {
      s.launch({s.reads(shells_), s.reads(list_), s.writes(sums_)}, integrate,
               unsigned(std::min(per_call_, list_.size() - first)), threads, shells_.device(),
               list_.device(), first, sums_.device());
      s.synchronize();
    }
    for (std::uint64_t first = 0; first < quadruples(); first += per_call_) {
      auto const count = std::min(per_call_, quadruples() - first);
      s.launch({s.reads(extents_), s.reads(sums_), s.writes(integrals_)}, reduce,
               unsigned((count + threads - 1) / threads), threads, extents_.device(),
               sums_.device(), first, count, integrals_.device());
      s.synchronize();
    }
    s.fetch(integrals_);
    float const* const integrals = integrals_.host();
    for (std::uint64_t q = 0; q < quadruples(); ++q) sum_ += integrals[q];
  }

  void reference() override {
    auto const all = all_shells();
    wanted_.clear();
    for_each_quadruple([&](std::uint16_t const(&s)[4]) { wanted_.push_back(integral(all, s)); });
  }

  void check(session&, checks& c) override {
    auto const all = all_shells();
    std::uint64_t q = 0;
    for_each_quadruple([&](std::uint16_t const(&s)[4]) {
      if (is_smoke_ || q % 41 == 0)
        c.near("integral", q, integrals_.host()[q], integral(all, s), 1e-10, 1e-4);
      ++q;
    });
    c.equal("quadruples", q, quadruples());
    c.expect(std::isfinite(sum_), "the sum of the integrals is not finite");
  }

  std::vector<std::span<std::byte const>> results() override { return {integrals_.result()}; }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const in = shells_.bytes() + list_.bytes() + extents_.bytes();
    std::uint64_t const out = integrals_.bytes(), sums = sums_.bytes();
    if (s.how().protocol == coherence_protocol::batch) {
      std::uint64_t const computing = (list_.size() + per_call_ - 1) / per_call_;
      std::uint64_t const reducing = (quadruples() + per_call_ - 1) / per_call_;
      if (s.is_declared()) {
        c.equal("bytes_h2d", got.bytes_h2d,
                computing * (shells_.bytes() + list_.bytes() + sums) +
                    reducing * (extents_.bytes() + sums + out));
        c.equal("bytes_d2h", got.bytes_d2h, computing * sums + reducing * out);
      } else {
        c.equal("bytes_h2d", got.bytes_h2d, (computing + reducing) * (in + sums + out));
        c.equal("bytes_d2h", got.bytes_d2h, (computing + reducing) * (in + sums + out));
      }
      return;
    }
    c.equal("bytes_d2h", got.bytes_d2h, out);
    c.equal("faults_read", got.faults_read, s.blocks_of(integrals_));
    // With a rolling size of 1 the two lists, written side by side, evict each other.
    if (s.how().protocol == coherence_protocol::lazy || s.how().rolling != 1)
      c.equal("bytes_h2d", got.bytes_h2d, in);
  }

 private:
  static constexpr std::uint64_t blocks_of_each = (per_quadruple + threads - 1) / threads;

  /// Of shells s1 <= s2 <= s3 <= s4.
  [[nodiscard]] std::uint64_t quadruples() const {
    auto const n = shell_count_;
    return n * (n + 1) * (n + 2) * (n + 3) / 24;
  }

  template <class Function>
  void for_each_quadruple(Function const& function) const {
    auto const n = static_cast<std::uint16_t>(shell_count_);
    std::uint16_t s[4];
    for (s[0] = 0; s[0] < n; ++s[0])
      for (s[1] = s[0]; s[1] < n; ++s[1])
        for (s[2] = s[1]; s[2] < n; ++s[2])
          for (s[3] = s[2]; s[3] < n; ++s[3]) function(s);
  }

  void write_list() {
    work* const list = list_.host();
    extent* const extents = extents_.host();
    std::uint32_t block = 0, quadruple = 0;
    for_each_quadruple([&](std::uint16_t const(&s)[4]) {
      extents[quadruple] = {block, blocks_of_each};
      for (std::uint32_t first = 0; first < per_quadruple; first += threads)
        list[block++] = {{s[0], s[1], s[2], s[3]}, first, quadruple};
      ++quadruple;
    });
  }

  /// STO-3G: shells of hydrogen (1s) and carbon (1s, 2s) by turns, in a box of edge 10.
  [[nodiscard]] shell shell_of(std::uint64_t i) const {
    constexpr double exponents[3][primitives] = {{3.42525091, 0.62391373, 0.16885540},
                                                 {71.6168370, 13.0450960, 3.5305122},
                                                 {2.9412494, 0.6834831, 0.2222899}};
    constexpr double factors[3][primitives] = {{0.15432897, 0.53532814, 0.44463454},
                                               {0.15432897, 0.53532814, 0.44463454},
                                               {-0.09996723, 0.39951283, 0.70011547}};
    shell s;
    std::uint64_t const atom = i % 3 == 2 ? i - 1 : i;  // both shells of carbon have one place
    for (unsigned d = 0; d < 3; ++d) s.place[d] = 10 * u01(seed_, 3 * atom + d);
    for (unsigned k = 0; k < primitives; ++k) {
      double const a = exponents[i % 3][k];
      s.exponent[k] = float(a);
      s.factor[k] = float(factors[i % 3][k] * std::pow(2 * a / std::numbers::pi, 0.75));
    }
    return s;
  }

  [[nodiscard]] std::vector<shell> all_shells() const {
    std::vector<shell> all;
    for (std::uint64_t i = 0; i < shell_count_; ++i) all.push_back(shell_of(i));
    return all;
  }

  [[nodiscard]] static double integral(std::vector<shell> const& all,
                                       std::uint16_t const (&number)[4]) {
    shell const* const s[] = {&all[number[0]], &all[number[1]], &all[number[2]], &all[number[3]]};
    double sum = 0;
    for (unsigned k = 0; k < per_quadruple; ++k) sum += product<double>(s, k);
    return sum;
  }

  std::uint64_t shell_count_, per_call_, seed_;
  bool is_smoke_;
  object<shell> shells_;
  object<work> list_;
  object<extent> extents_;
  object<float> sums_, integrals_;
  double sum_ = 0;
  std::vector<double> wanted_;
};

}  // namespace

description const workload_rpes{
    .name = "rpes",
    .what = "Parboil RPES: two-electron integrals; many calls on the lists that the CPU wrote",
    .parameters = {{"shells", 5, 30, "shells; quadruples of them are integrated", 1, most_shells},
                   {"per-call", 40, 4'096, "blocks of a launch", 1, INT32_MAX}},
    .make = make_workload<rpes>,
};

}  // namespace gpufs::apps::workloads
