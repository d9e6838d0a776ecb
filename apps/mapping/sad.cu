// SAD (Parboil): sums of absolute differences between the macroblocks of a picture and displaced
// ones of a reference picture. The CPU looks at a few rows of the result.
#include <apps/common/generator.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>
#include <set>

namespace gpufs::apps::workloads {

namespace {

using value = std::uint16_t;

constexpr int reach = 16;                 // displacements are from -16 to 16 in both axes
constexpr unsigned side = 2 * reach + 1;  // dx runs fastest
constexpr unsigned displacements = side * side;
constexpr unsigned padded = 1096;  // values of a vector in memory

/// Kinds of blocks, the largest first: width x height 16x16, 16x8, 8x16, 8x8, 8x4, 4x8, 4x4.
enum kind : unsigned { k16x16, k16x8, k8x16, k8x8, k8x4, k4x8, k4x4, kinds };

/// Blocks of a kind in a macroblock, and vectors per macroblock of the kinds before.
__host__ __device__ constexpr unsigned count_of(unsigned k) {
  constexpr unsigned counts[] = {1, 2, 2, 4, 8, 8, 16};
  return counts[k];
}
__host__ __device__ constexpr unsigned before(unsigned k) {
  constexpr unsigned sums[] = {0, 1, 3, 5, 9, 17, 25};
  return sums[k];
}
constexpr unsigned vectors = 41;
static_assert(before(k4x4) + count_of(k4x4) == vectors);

struct pictures {
  value const *current, *reference;
  std::uint64_t width, height;
  [[nodiscard]] __host__ __device__ std::uint64_t columns() const { return width / 16; }
  [[nodiscard]] __host__ __device__ std::uint64_t macroblocks() const {
    return columns() * (height / 16);
  }
  /// Where the vector of a block is.
  [[nodiscard]] __host__ __device__ std::uint64_t vector(unsigned k, std::uint64_t macroblock,
                                                         unsigned block) const {
    return (before(k) * macroblocks() + macroblock * count_of(k) + block) * padded;
  }
};

__host__ __device__ inline std::uint64_t clamped(std::int64_t at, std::uint64_t size) {
  return at < 0 ? 0 : at >= std::int64_t(size) ? size - 1 : std::uint64_t(at);
}

/// One value of a 4x4 block: block `b` of macroblock `m`, displacement `d`.
__host__ __device__ inline value difference(pictures const& p, std::uint64_t m, unsigned b,
                                            unsigned d) {
  std::uint64_t const x0 = m % p.columns() * 16 + b % 4 * 4, y0 = m / p.columns() * 16 + b / 4 * 4;
  auto const dx = std::int64_t(d % side) - reach, dy = std::int64_t(d / side) - reach;
  unsigned sum = 0;
  for (std::uint64_t y = y0; y < y0 + 4; ++y) {
    auto const row = clamped(std::int64_t(y) + dy, p.height) * p.width;
    for (std::uint64_t x = x0; x < x0 + 4; ++x) {
      int const a = p.current[y * p.width + x];
      int const b2 = p.reference[row + clamped(std::int64_t(x) + dx, p.width)];
      sum += unsigned(a < b2 ? b2 - a : a - b2);
    }
  }
  return value(sum);
}

/// What the sum for a larger block is made of: two blocks of a smaller kind.
struct halves {
  unsigned of, first, second;
};
__host__ __device__ inline halves halves_of(unsigned k, unsigned b) {
  switch (k) {
    case k8x4: return {k4x4, b / 2 * 4 + b % 2 * 2, b / 2 * 4 + b % 2 * 2 + 1};
    case k4x8: return {k4x4, b / 4 * 8 + b % 4, b / 4 * 8 + b % 4 + 4};
    case k8x8: return {k8x4, b / 2 * 4 + b % 2, b / 2 * 4 + b % 2 + 2};
    case k16x8: return {k8x8, 2 * b, 2 * b + 1};
    case k8x16: return {k8x8, b, b + 2};
    default: return {k16x8, 0, 1};
  }
}

__host__ __device__ inline void combine(pictures const& p, value* sums, std::uint64_t m, unsigned k,
                                        unsigned b, unsigned d) {
  auto const h = halves_of(k, b);
  sums[p.vector(k, m, b) + d] =
      value(sums[p.vector(h.of, m, h.first) + d] + sums[p.vector(h.of, m, h.second) + d]);
}

/// A block for each macroblock in all three kernels.
__global__ void sums_4x4(pictures p, value* sums) {
  for (unsigned i = threadIdx.x; i < 16 * displacements; i += blockDim.x) {
    unsigned const b = i / displacements, d = i % displacements;
    sums[p.vector(k4x4, blockIdx.x, b) + d] = difference(p, blockIdx.x, b, d);
  }
}

/// A thread makes all larger sums of its displacements, so that it reads its own values alone.
__global__ void sums_to_8x8(pictures p, value* sums) {
  for (unsigned d = threadIdx.x; d < displacements; d += blockDim.x) {
    for (unsigned const k : {k8x4, k4x8, k8x8})
      for (unsigned b = 0; b < count_of(k); ++b) combine(p, sums, blockIdx.x, k, b, d);
  }
}

__global__ void sums_to_16x16(pictures p, value* sums) {
  for (unsigned d = threadIdx.x; d < displacements; d += blockDim.x) {
    for (unsigned const k : {k16x8, k8x16, k16x16})
      for (unsigned b = 0; b < count_of(k); ++b) combine(p, sums, blockIdx.x, k, b, d);
  }
}

class sad final : public workload {
 public:
  explicit sad(setup const& of)
      : width_(of["width"]), height_(of["height"]), seed_(of.seed), is_smoke_(of.is_smoke) {}

  void allocate(session& s) override {
    current_ = s.allocate<value>(width_ * height_);
    reference_ = s.allocate<value>(width_ * height_);
    sums_ = s.allocate<value>(layout().macroblocks() * vectors * padded);
  }

  void run(session& s) override {
    draw(current_.host(), reference_.host());
    s.send(current_);
    s.send(reference_);
    pictures const p{current_.device(), reference_.device(), width_, height_};
    auto const blocks = unsigned(p.macroblocks());
    s.launch({s.reads(current_), s.reads(reference_), s.writes(sums_)}, sums_4x4, blocks, 256, p,
             sums_.device());
    s.launch({s.reads_writes(sums_)}, sums_to_8x8, blocks, 256, p, sums_.device());
    s.launch({s.reads_writes(sums_)}, sums_to_16x16, blocks, 256, p, sums_.device());
    s.synchronize();
    for_each_run([&](std::uint64_t first, std::uint64_t count) { s.fetch(sums_, first, count); });
    found_ = smallest(sums_.host());
  }

  void reference() override {
    std::vector<value> current(width_ * height_), former(width_ * height_);
    draw(current.data(), former.data());
    pictures const p{current.data(), former.data(), width_, height_};
    wanted_.assign(p.macroblocks() * vectors * padded, 0);
    for (std::uint64_t m = 0; m < p.macroblocks(); ++m) sums_of(p, m, wanted_.data());
  }

  void check(session& s, checks& c) override {
    auto const p = layout();
    if (is_smoke_) {
      s.fetch(sums_);
      reference();
      for (std::uint64_t i = 0; i < wanted_.size(); ++i)
        c.equal("a sum", sums_.host()[i], wanted_[i]);
    }
    // Away from the border there is no difference where the picture comes from.
    for (std::uint64_t const row : rows()) {
      for (std::uint64_t column = 0; column < p.columns(); ++column) {
        bool const is_inside =
            row >= 2 && row + 2 < height_ / 16 && column >= 2 && column + 2 < p.columns();
        auto const m = row * p.columns() + column;
        if (is_inside)
          c.equal("the sum at the known displacement",
                  sums_.host()[p.vector(k16x16, m, 0) + shift_of(m)], 0);
      }
    }
  }

  std::vector<std::span<std::byte const>> results() override {
    return {std::as_bytes(std::span<value const>(found_))};
  }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const in = current_.bytes() + reference_.bytes(), out = sums_.bytes();
    if (s.how().protocol == coherence_protocol::batch) {
      c.equal("bytes_h2d", got.bytes_h2d, in + out);
      c.equal("bytes_d2h", got.bytes_d2h, out + (s.is_declared() ? 0 : in));
      return;
    }
    std::uint64_t const block = s.block_of(sums_);
    std::set<std::uint64_t> read;
    for_each_vector([&](std::uint64_t first) {
      for (auto b = first * sizeof(value) / block;
           b <= ((first + displacements) * sizeof(value) - 1) / block; ++b)
        read.insert(b);
    });
    std::uint64_t bytes = 0;
    for (auto const b : read) bytes += std::min(block, out - b * block);
    c.equal("bytes_h2d", got.bytes_h2d, in);
    c.equal("bytes_d2h", got.bytes_d2h, bytes);
    c.equal("faults_read", got.faults_read, read.size());
  }

 private:
  [[nodiscard]] pictures layout() const { return {nullptr, nullptr, width_, height_}; }

  /// Rows of macroblocks that the CPU looks at.
  [[nodiscard]] std::set<std::uint64_t> rows() const {
    std::uint64_t const h = height_ / 16;
    std::set<std::uint64_t> all{0, std::min<std::uint64_t>(1, h - 1), h / 2, h - 1};
    all.insert((h + 1) / 2 - 1);
    all.insert(h >= 2 ? h - 2 : 0);
    return all;
  }

  /// The values of a row of one kind lie side by side.
  template <class Function>
  void for_each_run(Function const& function) const {
    auto const p = layout();
    for (unsigned k = 0; k < kinds; ++k)
      for (auto const row : rows())
        function(p.vector(k, row * p.columns(), 0), p.columns() * count_of(k) * padded);
  }
  template <class Function>
  void for_each_vector(Function const& function) const {
    for_each_run([&](std::uint64_t first, std::uint64_t count) {
      for (std::uint64_t at = first; at < first + count; at += padded) function(at);
    });
  }

  /// Of each vector in those rows, the smallest sum and its displacement.
  [[nodiscard]] std::vector<value> smallest(value const* sums) const {
    std::vector<value> found;
    for_each_vector([&](std::uint64_t first) {
      auto const* const begin = sums + first;
      auto const* const least = std::min_element(begin, begin + displacements);
      found.push_back(*least);
      found.push_back(value(least - begin));
    });
    return found;
  }

  /// The displacement of a macroblock.
  [[nodiscard]] unsigned shift_of(std::uint64_t m) const {
    return unsigned(generate_below(seed_ + 3, m, displacements));
  }

  /// A reference picture, and one whose macroblocks come from it, each by its own displacement.
  void draw(value* current, value* former) const {
    for (std::uint64_t y = 0; y < height_; ++y)
      for (std::uint64_t x = 0; x < width_; ++x) {
        auto const noise = generate_below(seed_, y * width_ + x, 64);
        former[y * width_ + x] = value((x * 3 + y * 5) / 4 % 192 + noise);
      }
    // Drawn by the same formula: the CPU only writes here.
    for (std::uint64_t y = 0; y < height_; ++y)
      for (std::uint64_t x = 0; x < width_; ++x) {
        auto const d = shift_of(y / 16 * (width_ / 16) + x / 16);
        auto const from_y = clamped(std::int64_t(y) + std::int64_t(d / side) - reach, height_);
        auto const from_x = clamped(std::int64_t(x) + std::int64_t(d % side) - reach, width_);
        auto const noise = generate_below(seed_, from_y * width_ + from_x, 64);
        current[y * width_ + x] = value((from_x * 3 + from_y * 5) / 4 % 192 + noise);
      }
  }

  static void sums_of(pictures const& p, std::uint64_t m, value* sums) {
    for (unsigned b = 0; b < 16; ++b)
      for (unsigned d = 0; d < displacements; ++d)
        sums[p.vector(k4x4, m, b) + d] = difference(p, m, b, d);
    for (unsigned const k : {k8x4, k4x8, k8x8, k16x8, k8x16, k16x16})
      for (unsigned b = 0; b < count_of(k); ++b)
        for (unsigned d = 0; d < displacements; ++d) combine(p, sums, m, k, b, d);
  }

  std::uint64_t width_, height_, seed_;
  bool is_smoke_;
  object<value> current_, reference_, sums_;
  std::vector<value> found_, wanted_;
};

}  // namespace

description const workload_sad{
    .name = "sad",
    .what = "Parboil SAD: sums of differences of two pictures; the CPU reads a few rows of them",
    .parameters = {{"width", 32, 1'920, "of the pictures, a multiple of 16", 16, 1 << 19, 16},
                   {"height", 48, 1'088, "of the pictures, a multiple of 16", 16, 1 << 19, 16}},
    .make = make_workload<sad>,
};

}  // namespace gpufs::apps::workloads
