// CP (Parboil): the Coulomb potential of atoms on a plane. Each call adds some of the atoms.
#include <apps/common/generator.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/random.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>
#include <cmath>

namespace gpufs::apps::workloads {

namespace {

struct alignas(16) atom {
  float x, y, dz2, charge;  // dz2: the square of the distance from the plane
};

constexpr float spacing = 0.1f;
constexpr unsigned points_per_thread = 8;

template <class Real>
__host__ __device__ inline Real potential(atom const& a, std::uint64_t x, std::uint64_t y) {
  Real const dx = Real(float(x) * spacing) - Real(a.x);
  Real const dy = Real(float(y) * spacing) - Real(a.y);
  return Real(a.charge) / std::sqrt(dx * dx + dy * dy + Real(a.dz2));
}

/// Adds the potential of `count` atoms: a block for 128 x 8 points, a thread for 8 of a row.
__global__ void add_atoms(atom const* atoms, std::uint64_t count, float* plane,
                          std::uint64_t edge) {
  std::uint64_t const y = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  std::uint64_t const x = blockIdx.x * std::uint64_t{blockDim.x} * points_per_thread + threadIdx.x;
  if (y >= edge) return;
  float sums[points_per_thread] = {};
  for (std::uint64_t i = 0; i < count; ++i) {
    atom const a = atoms[i];
    for (unsigned k = 0; k < points_per_thread; ++k)
      sums[k] += potential<float>(a, x + k * blockDim.x, y);
  }
  for (unsigned k = 0; k < points_per_thread; ++k) {
    auto const at = x + k * blockDim.x;
    if (at < edge) plane[y * edge + at] += sums[k];
  }
}

class cp final : public workload {
 public:
  explicit cp(setup const& of)
      : edge_(of["edge"]),
        calls_(of["calls"]),
        atom_count_(of["atoms"]),
        seed_(of.seed),
        is_smoke_(of.is_smoke) {}

  void allocate(session& s) override {
    atoms_ = s.allocate<atom>(atom_count_);
    plane_ = s.allocate<float>(edge_ * edge_);
  }

  void run(session& s) override {
    for (std::uint64_t i = 0; i < atoms_.size(); ++i) atoms_.host()[i] = atom_of(i);
    s.send(atoms_);
    unsigned const columns = 16 * points_per_thread;
    dim3 const grid(unsigned((edge_ + columns - 1) / columns), unsigned((edge_ + 7) / 8));
    for (std::uint64_t c = 0; c < calls_; ++c) {
      s.launch({s.reads(atoms_), s.reads_writes(plane_)}, add_atoms, grid, dim3(16, 8),
               atoms_.device() + first_of(c), first_of(c + 1) - first_of(c), plane_.device(),
               edge_);
      s.synchronize();
    }
    s.fetch(plane_);
    float const* const plane = plane_.host();
    for (std::uint64_t i = 0; i < plane_.size(); ++i) sum_ += plane[i];
  }

  void reference() override {
    wanted_.resize(edge_ * edge_);
    for (std::uint64_t i = 0; i < wanted_.size(); ++i) wanted_[i] = potential_at(i);
  }

  void check(session&, checks& c) override {
    std::uint64_t const samples = is_smoke_ ? plane_.size() : 1000;
    for (std::uint64_t k = 0; k < samples; ++k) {
      auto const i = is_smoke_ ? k : generate_below(seed_ + 9, k, plane_.size());
      c.near("potential", i, plane_.host()[i], potential_at(i), 1e-3, 1e-4);
    }
    c.expect(std::isfinite(sum_), "the sum of the plane is not finite");
  }

  std::vector<std::span<std::byte const>> results() override { return {plane_.result()}; }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const atoms = atoms_.bytes(), plane = plane_.bytes();
    if (s.how().protocol == coherence_protocol::batch) {
      c.equal("bytes_h2d", got.bytes_h2d, calls_ * (atoms + plane));
      c.equal("bytes_d2h", got.bytes_d2h, calls_ * (plane + (s.is_declared() ? 0 : atoms)));
      return;
    }
    c.equal("bytes_h2d", got.bytes_h2d, atoms);
    c.equal("bytes_d2h", got.bytes_d2h, plane);
    c.equal("faults_write", got.faults_write, s.blocks_of(atoms_));
    c.equal("faults_read", got.faults_read, s.blocks_of(plane_));
  }

 private:
  [[nodiscard]] atom atom_of(std::uint64_t i) const {
    float const width = static_cast<float>(edge_) * spacing;
    float const z = 0.5f + 4.5f * u01(seed_, 4 * i + 2);
    return {width * u01(seed_, 4 * i), width * u01(seed_, 4 * i + 1), z * z,
            2 * u01(seed_, 4 * i + 3) - 1};
  }

  /// The first atom of a call. Calls have as many, give or take one.
  [[nodiscard]] std::uint64_t first_of(std::uint64_t call) const {
    return atom_count_ * call / calls_;
  }

  [[nodiscard]] double potential_at(std::uint64_t i) const {
    double sum = 0;
    for (std::uint64_t a = 0; a < atom_count_; ++a)
      sum += potential<double>(atom_of(a), i % edge_, i / edge_);
    return sum;
  }

  std::uint64_t edge_, calls_, atom_count_, seed_;
  bool is_smoke_;
  object<atom> atoms_;
  object<float> plane_;
  double sum_ = 0;
  std::vector<double> wanted_;
};

}  // namespace

description const workload_cp{
    .name = "cp",
    .what = "Parboil CP: the Coulomb potential of atoms on a plane, some atoms in each call",
    .parameters = {{"edge", 24, 512, "points of an edge of the plane", 1, 500'000},
                   {"calls", 4, 10, "launches", 1, 1 << 20},
                   {"atoms", 120, 40'000, "atoms of all launches together", 1, 1ull << 40}},
    .make = make_workload<cp>,
};

}  // namespace gpufs::apps::workloads
