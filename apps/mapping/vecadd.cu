// Vector addition (ADSM, figure 11). The CPU writes two arrays side by side, and sums the result.
#include <apps/mapping/all.hpp>
#include <apps/mapping/session.hpp>

#include <algorithm>

namespace gpufs::apps::workloads {

namespace {

__global__ void add_vectors(float const* a, float const* b, float* c, std::uint64_t n) {
  auto const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

float a_of(std::uint64_t i) { return static_cast<float>(i % 1024); }
float b_of(std::uint64_t i) { return static_cast<float>(i / 1024 % 1024); }

class vecadd final : public workload {
 public:
  explicit vecadd(setup const& of) : n_(of["n"]), stride_(of["stride"]) {}

  void allocate(session& s) override {
    a_ = s.allocate<float>(n_);
    b_ = s.allocate<float>(n_);
    c_ = s.allocate<float>(n_);
  }

  void run(session& s) override {
    // Volatile: element by element, so that two blocks are written by turns.
    float volatile *const a = a_.host(), *const b = b_.host();
    for (std::uint64_t i = 0; i < n_; i += stride_) {
      a[i] = a_of(i);
      b[i] = b_of(i);
    }
    s.send(a_);
    s.send(b_);
    s.launch({s.reads(a_), s.reads(b_), s.writes(c_)}, add_vectors,
             static_cast<unsigned>((n_ + 255) / 256), 256, a_.device(), b_.device(), c_.device(),
             n_);
    s.synchronize();
    s.fetch(c_);
    sum_ = sum_of(c_.host());
  }

  void reference() override {
    std::vector<float> a(n_), b(n_), c(n_);
    for (std::uint64_t i = 0; i < n_; i += stride_) {
      a[i] = a_of(i);
      b[i] = b_of(i);
    }
    for (std::uint64_t i = 0; i < n_; ++i) c[i] = a[i] + b[i];
    wanted_ = sum_of(c.data());
  }

  void check(session&, checks& c) override {
    reference();
    c.expect(sum_ == wanted_, "the sum");  // exact: integers below 2^53
    float const* const found = c_.host();
    for (std::uint64_t i = 0; i < n_; i += stride_)
      c.near("c", i, found[i], a_of(i) + b_of(i), 0, 0);
  }

  std::vector<std::span<std::byte const>> results() override { return {c_.result()}; }

  void check_counters(session const& s, mapping_statistics const& got, checks& c) override {
    std::uint64_t const bytes = a_.bytes();
    c.equal("faults_spurious", got.faults_spurious, 0);
    if (s.how().protocol == coherence_protocol::batch) {
      c.equal("bytes_h2d", got.bytes_h2d, 3 * bytes);
      c.equal("bytes_d2h", got.bytes_d2h, s.is_declared() ? bytes : 3 * bytes);
      c.equal("faults", got.faults_read + got.faults_write, 0);
      return;
    }
    touched const t = touched_blocks(s.block_of(a_));
    // With a rolling size of 1, two arrays evict each other's block at every element.
    bool const is_thrashing =
        s.how().protocol == coherence_protocol::rolling && s.how().rolling == 1;
    c.equal("faults_write", got.faults_write, 2 * (is_thrashing ? t.elements : t.blocks));
    c.equal("bytes_h2d", got.bytes_h2d, 2 * (is_thrashing ? t.block_bytes_of_elements : t.bytes));
    c.equal("faults_read", got.faults_read, t.blocks);
    c.equal("bytes_d2h", got.bytes_d2h, t.bytes);
  }

 private:
  struct touched {
    std::uint64_t elements = 0, blocks = 0;
    std::uint64_t bytes = 0;                    // of the blocks
    std::uint64_t block_bytes_of_elements = 0;  // each element counts its whole block
  };

  [[nodiscard]] touched touched_blocks(std::uint64_t block) const {
    touched t;
    for (std::uint64_t i = 0, last = ~0ull; i < n_; i += stride_) {
      std::uint64_t const at = i * sizeof(float) / block;
      std::uint64_t const size = std::min(block, n_ * sizeof(float) - at * block);
      ++t.elements;
      t.block_bytes_of_elements += size;
      if (at == last) continue;
      last = at;
      ++t.blocks;
      t.bytes += size;
    }
    return t;
  }

  [[nodiscard]] double sum_of(float const* c) const {
    double sum = 0;
    for (std::uint64_t i = 0; i < n_; i += stride_) sum += c[i];
    return sum;
  }

  std::uint64_t n_, stride_;
  object<float> a_, b_, c_;
  double sum_ = 0, wanted_ = 0;
};

}  // namespace

description const workload_vecadd{
    .name = "vecadd",
    .what = "c = a + b: the CPU writes a and b side by side and sums c",
    .parameters = {{"n", 20'000, 8 << 20, "elements", 1, 1ull << 38},
                   {"stride", 1, 1, "the CPU touches each stride-th element", 1, 1ull << 38}},
    .make = make_workload<vecadd>,
};

}  // namespace gpufs::apps::workloads
