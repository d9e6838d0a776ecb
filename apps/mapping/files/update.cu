// update: a kernel changes a few pages of a large file, and these become durable, round by round.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <csignal>

namespace gpufs::apps::workloads {

namespace {

constexpr std::uint64_t page_bytes = 4096, page_elements = page_bytes / sizeof(std::int32_t);

/// Whether the round changes the page: one of a hundred pages, drawn at random.
__host__ __device__ inline bool is_changed(std::uint64_t seed, std::uint64_t round,
                                           std::uint64_t page) {
  return generate_below(array_seed(seed, round + 1), page, 100) == 0;
}

/// A block for each page, in turn if there are more pages.
__global__ void __launch_bounds__(256)
    add_one(std::int32_t* table, std::uint64_t pages, std::uint64_t seed, std::uint64_t round) {
  for (std::uint64_t p = blockIdx.x; p < pages; p += gridDim.x) {
    if (!is_changed(seed, round, p)) continue;
    for (unsigned i = threadIdx.x; i < page_elements; i += blockDim.x)
      table[p * page_elements + i] += 1;
  }
}

class update final : public file_workload {
 public:
  explicit update(setup const& s)
      : seed_(s.seed),
        pages_(s["footprint"] / page_bytes),
        rounds_(s["rounds"]),
        last_round_(s["kill"]) {
    objects_ = {
        {.name = "table",
         .bytes = pages_ * page_bytes,
         .use = object_use::updated,
         .fill = fill_elements<std::int32_t>([this](std::uint64_t i) { return start(i); })}};
    rules_ = {{.object = 0, .type = element::i32, .group = page_elements, .most_groups = 1 << 15}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    auto const blocks = static_cast<unsigned>(std::min<std::uint64_t>(pages_, 1 << 20));
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      launch_on(a, {{0, access::read_write}}, add_one, blocks, 256, a.of<std::int32_t>(0), pages_,
                seed_, round);
      a.make_durable(0);
      if (round + 1 == last_round_) std::raise(SIGKILL);
    }
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    std::uint64_t const page = first / page_elements;
    double changes = 0;
    for (std::uint64_t round = 0; round < rounds_; ++round)
      changes += is_changed(seed_, round, page) ? 1 : 0;
    for (std::uint64_t i = 0; i < to.size(); ++i) to[i] = start(first + i) + changes;
  }

  /// In each round the pages that it changes are written, and nothing else.
  void check_counters(mapping_statistics const& got, checks& c) const override {
    std::uint64_t changed = 0;
    for (std::uint64_t round = 0; round < rounds_; ++round)
      for (std::uint64_t p = 0; p < pages_; ++p) changed += is_changed(seed_, round, p) ? 1 : 0;
    c.equal("fill_bytes", got.fill_bytes, pages_ * page_bytes);
    c.equal("writeback_pages", got.writeback_pages, changed);
    c.equal("writeback_bytes", got.writeback_bytes, changed * page_bytes);
    c.equal("bytes_d2h", got.bytes_d2h, changed * page_bytes);
    c.equal("faults", got.faults_read + got.faults_write, 0);
  }

 private:
  [[nodiscard]] std::int32_t start(std::uint64_t i) const {
    return static_cast<std::int32_t>(generate_below(array_seed(seed_, 0), i, 1 << 20));
  }

  std::uint64_t seed_, pages_, rounds_, last_round_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_update = {
    .name = "update",
    .what = "a kernel changes 1 % of the pages of a file, which become durable, in rounds",
    .parameters = {{"footprint", 3 << 20, 16ull << 30, "bytes of the file", page_bytes, 1ull << 48},
                   {"rounds", 3, 20, "rounds", 1, 1ull << 32},
                   {"kill", 0, 0, "kills the process behind that round, 0: does not", 0,
                    1ull << 32}},
    .make = make_file_program<update>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
