// vectorAdd (DRAGON): c = a + b, a thread for each element. Every byte is used once.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <bit>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_a, object_b, object_c };

__global__ void __launch_bounds__(1024)
    add(float const* a, float const* b, float* c, std::uint64_t n) {
  std::uint64_t const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

class vector_add final : public file_workload {
 public:
  explicit vector_add(setup const& s)
      : seed_(s.seed),
        n_(s["footprint"] / 12),
        has_any_bits_(s["bits"] != 0),
        in_windows_(s["windows"] != 0) {
    std::uint64_t const bytes = 4 * n_;
    auto const term = [this](unsigned array) {
      return fill_elements<float>([this, array](std::uint64_t i) { return value(array, i); });
    };
    objects_ = {{.name = "a", .bytes = bytes, .fill = term(object_a)},
                {.name = "b", .bytes = bytes, .fill = term(object_b)},
                {.name = "c", .bytes = bytes, .use = object_use::output}};
    rules_ = {{.object = object_c, .type = element::f32}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  bool is_in_windows() const override { return in_windows_; }

  void compute(file_arrays& a) override {
    if (in_windows_) return compute_in_windows(a);
    auto const blocks = static_cast<unsigned>((n_ + 1023) / 1024);
    launch_on(a, {{object_a, access::read}, {object_b, access::read}, {object_c, access::write}},
              add, blocks, 1024, a.of<float>(object_a), a.of<float>(object_b),
              a.of<float>(object_c), n_);
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    for (std::uint64_t i = 0; i < to.size(); ++i)
      to[i] = value(object_a, first + i) + value(object_b, first + i);
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    // What lies at the host is not copied from and to there.
    if (in_windows_) return c.equal("writeback_bytes", got.writeback_bytes, 4 * n_);
    check_streamed(got, {.read = 8 * n_, .written = 4 * n_}, c);
  }

 private:
  void compute_in_windows(file_arrays& a) {
    a.for_windows({{object_a, access::read}, {object_b, access::read}, {object_c, access::write}},
                  n_, [&a](std::uint64_t first, std::uint64_t count, stream* on) {
                    auto const blocks = static_cast<unsigned>((count + 1023) / 1024);
                    a.count_launch([&] {
                      gpufs::launch({.grid = blocks, .block = 1024, .on = on}, add,
                                    a.of<float const>(object_a) + first,
                                    a.of<float const>(object_b) + first,
                                    a.of<float>(object_c) + first, count);
                    });
                  });
  }

  /// A whole number, so that sums are exact. Or any bits.
  [[nodiscard]] float value(unsigned array, std::uint64_t i) const {
    if (has_any_bits_)
      return std::bit_cast<float>(
          static_cast<std::uint32_t>(generate(array_seed(seed_, array), i)));
    return static_cast<float>(generate_below(array_seed(seed_, array), i, 1 << 20));
  }

  std::uint64_t seed_, n_;
  bool has_any_bits_, in_windows_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_vectorAdd = {
    .name = "vectorAdd",
    .what = "c = a + b, of files",
    .parameters = {{"footprint", 3 << 20, 4ull << 30, "bytes of all files", 12, 1ull << 44},
                   {"bits", 0, 0, "1: random bits, NaNs among them", 0, 1},
                   {"windows", 0, 0, "1: for_each_window(), for files larger than all memory", 0,
                    1}},
    .make = make_file_program<vector_add>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
