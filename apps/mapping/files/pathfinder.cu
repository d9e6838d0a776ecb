// pathfinder (DRAGON, from Rodinia): the cheapest way down a grid of costs, a launch for each row.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_data, object_result, object_buffer };

/// costs: the cheapest ways to the row above. A block holds 256 columns, of which its outermost
/// ones serve the others.
__global__ void __launch_bounds__(256)
    descend(std::int32_t const* row, std::int32_t const* costs, std::int32_t* to, std::int64_t n) {
  __shared__ std::int32_t held[256];
  unsigned const t = threadIdx.x;
  std::int64_t const j = std::int64_t{blockIdx.x} * 254 + t - 1;
  bool const is_inside = j >= 0 && j < n;
  held[t] = is_inside ? costs[j] : 0;
  __syncthreads();
  if (!is_inside || t == 0 || t == 255) return;
  std::int32_t const left = j > 0 ? held[t - 1] : held[t];
  std::int32_t const right = j + 1 < n ? held[t + 1] : held[t];
  to[j] = row[j] + min(held[t], min(left, right));
}

class pathfinder final : public file_workload {
 public:
  explicit pathfinder(setup const& s)
      : seed_(s.seed),
        n_(std::max<std::uint64_t>(
            2, static_cast<std::uint64_t>(std::sqrt(static_cast<double>(s["footprint"]) / 4)))) {
    objects_ = {{.name = "data",
                 .bytes = n_ * row_bytes(),
                 .fill = fill_elements<std::int32_t>([this](std::uint64_t i) { return cost(i); })},
                {.name = "result", .bytes = row_bytes(), .use = object_use::output},
                {.name = "buffer", .bytes = row_bytes(), .use = object_use::scratch}};
    rules_ = {{.object = object_result, .type = element::i32}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    unsigned from = first_buffer(), to = object_result + object_buffer - from;
    a.write(from, 0, a.read(object_data, {.first = 0, .row_bytes = row_bytes()}).data, row_bytes());
    auto const blocks = static_cast<unsigned>((n_ + 253) / 254);
    for (std::uint64_t i = 1; i < n_; ++i) {
      launch_on(a,
                {{object_data, access::read, i * row_bytes(), row_bytes()},
                 {from, access::read},
                 {to, access::write}},
                descend, blocks, 256, a.of<std::int32_t>(object_data) + i * n_,
                a.of<std::int32_t>(from), a.of<std::int32_t>(to), static_cast<std::int64_t>(n_));
      a.synchronize();
      std::swap(from, to);
    }
  }

  void prepare_reference() override {
    if (!last_row_.empty()) return;
    std::vector<std::int32_t> now(n_), next(n_);
    for (std::uint64_t j = 0; j < n_; ++j) now[j] = cost(j);
    for (std::uint64_t i = 1; i < n_; ++i) {
      for (std::uint64_t j = 0; j < n_; ++j) {
        std::int32_t const left = now[j == 0 ? j : j - 1], right = now[j + 1 == n_ ? j : j + 1];
        next[j] = cost(i * n_ + j) + std::min({left, now[j], right});
      }
      std::swap(now, next);
    }
    last_row_ = std::move(now);
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    for (std::uint64_t i = 0; i < to.size(); ++i) to[i] = last_row_[first + i];
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    c.equal("fill_bytes", got.fill_bytes, n_ * row_bytes());
    c.equal("writeback_bytes", got.writeback_bytes, row_bytes());
    c.equal("bytes_h2d", got.bytes_h2d, row_bytes());
    c.equal("bytes_d2h", got.bytes_d2h, row_bytes());
    c.equal("faults_read", got.faults_read, 0);
    // Without declarations one more waits for the file.
    c.expect(got.calls == n_ - 1 || got.calls == n_, "a call for each row");
  }

 private:
  /// The rows alternate so that the last one goes to the result.
  [[nodiscard]] unsigned first_buffer() const {
    return n_ % 2 == 0 ? object_buffer : object_result;
  }
  [[nodiscard]] std::uint64_t row_bytes() const { return n_ * sizeof(std::int32_t); }
  [[nodiscard]] std::int32_t cost(std::uint64_t i) const {
    return static_cast<std::int32_t>(generate_below(array_seed(seed_, 0), i, 10));
  }

  std::uint64_t seed_, n_;
  std::vector<std::int32_t> last_row_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_pathfinder = {
    .name = "pathfinder",
    .what = "the cheapest way down a grid of costs, a launch for each row of the file",
    .parameters = {{"footprint", 1 << 20, 4ull << 30, "bytes of the grid", 16, 1ull << 48}},
    .make = make_file_program<pathfinder>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
