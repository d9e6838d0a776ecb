// outofcore-bfs: levels of an R-MAT graph whose lists of neighbours are a file. Which bytes of it a
// launch uses depends on the data.
#include <gpufs/device.hpp>

#include <apps/analytics/graph/generators.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/input_file.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>
#include <apps/mapping/files/list_gather.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_offsets, object_edges, object_levels, object_found };

constexpr std::int32_t no_level = -1;
constexpr std::uint64_t edges_each = 16;  // edges per vertex, each in both directions in the file
constexpr std::uint64_t vertex_bytes = 2 * edges_each * sizeof(std::uint64_t);  // of the lists

__device__ std::int32_t load_level(std::int32_t& level) {
  return atomic_ref<std::int32_t, scope::device>(level).load(memory_order_relaxed);
}

__global__ void begin_levels(std::int32_t* levels, std::uint64_t n, std::uint64_t source) {
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t v = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; v < n; v += step)
    levels[v] = v == source ? 0 : no_level;
}

/// Gives the unreached neighbours of the vertices of `level` the next one. A warp looks at 32
/// vertices and goes through their lists one by one. Several may reach a vertex at once; they store
/// the same.
__global__ void __launch_bounds__(256)
    expand(std::uint64_t const* offsets, std::uint64_t const* edges, std::int32_t* levels,
           std::uint64_t n, std::int32_t level, std::int32_t* found) {
  unsigned const lane = threadIdx.x % 32;
  std::uint64_t const warp = (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  std::uint64_t const warps = std::uint64_t{gridDim.x} * blockDim.x / 32;
  bool any = false;
  for (std::uint64_t first = warp * 32; first < n; first += warps * 32) {
    bool const is_in = first + lane < n && load_level(levels[first + lane]) == level;
    for (unsigned left = __ballot_sync(0xffffffff, is_in); left != 0; left &= left - 1) {
      std::uint64_t const v = first + static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
      std::uint64_t const end = offsets[v + 1];
      for (std::uint64_t e = offsets[v] + lane; e < end; e += 32) {
        std::int32_t& next = levels[edges[e]];
        if (load_level(next) != no_level) continue;
        atomic_ref<std::int32_t, scope::device>(next).store(level + 1, memory_order_relaxed);
        any = true;
      }
    }
  }
  if (any) atomic_ref<std::int32_t, scope::device>(*found).store(1, memory_order_relaxed);
}

/// Gives the unreached vertices among `edges` the level behind `level`.
__global__ void __launch_bounds__(256)
    reach(std::uint64_t const* edges, std::uint64_t count, std::int32_t* levels, std::int32_t level,
          std::int32_t* found) {
  bool any = false;
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (auto e = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += step) {
    std::int32_t& next = levels[edges[e]];
    if (load_level(next) != no_level) continue;
    atomic_ref<std::int32_t, scope::device>(next).store(level + 1, memory_order_relaxed);
    any = true;
  }
  if (any) atomic_ref<std::int32_t, scope::device>(*found).store(1, memory_order_relaxed);
}

/// The lists of the vertices of `level`, neighbours together.
std::vector<word_run> lists_of(std::int32_t const* levels, std::uint64_t const* offsets,
                               std::uint64_t n, std::int32_t level) {
  std::vector<word_run> runs;
  for (std::uint64_t v = 0; v < n; ++v) {
    if (levels[v] != level || offsets[v] == offsets[v + 1]) continue;
    if (!runs.empty() && runs.back().end == offsets[v])
      runs.back().end = offsets[v + 1];
    else
      runs.push_back({offsets[v], offsets[v + 1]});
  }
  return runs;
}

/// The graph of all runs of a process, and the vertex with the most neighbours.
struct searched_graph {
  analytics::csr_graph csr;
  std::uint64_t source = 0;
};

std::shared_ptr<searched_graph const> graph_of(unsigned scale, std::uint64_t seed) {
  static std::mutex lock;
  static std::pair<unsigned, std::uint64_t> made_of;
  static std::shared_ptr<searched_graph const> made;
  std::scoped_lock const held(lock);
  if (made && made_of == std::pair(scale, seed)) return made;
  auto g = std::make_shared<searched_graph>();
  g->csr = analytics::generate_graph("kron", scale, seed);
  auto const& o = g->csr.offsets;
  for (std::uint64_t v = 0; v < g->csr.vertices(); ++v)
    if (o[v + 1] - o[v] > o[g->source + 1] - o[g->source]) g->source = v;
  made_of = {scale, seed};
  return made = std::move(g);
}

class outofcore_bfs final : public file_workload {
 public:
  explicit outofcore_bfs(setup const& s)
      : seed_(s.seed),
        scale_(static_cast<unsigned>(std::bit_width(s["footprint"] / vertex_bytes) - 1)),
        gathers_(s["gather"]) {
    if (gathers_ != 0 && gathers_ < least_gather)
      throw usage_error("--set gather=" + std::to_string(gathers_) + ": must be 0 or at least " +
                        std::to_string(least_gather));
    objects_ = {{.name = "offsets",
                 .bytes = (n() + 1) * sizeof(std::uint64_t),
                 .fill = fill_records<std::uint64_t>(
                     [this](std::uint64_t v) { return graph().csr.offsets[v]; })},
                // Loops have been dropped. Zeros stand in their places, behind all lists.
                {.name = "edges",
                 .bytes = vertex_bytes * n(),
                 .fill = fill_records<std::uint64_t>([this](std::uint64_t e) {
                   auto const& edges = graph().csr.edges;
                   return e < edges.size() ? edges[e] : 0;
                 }),
                 .is_gathered = gathers_ != 0},
                {.name = "levels", .bytes = n() * sizeof(std::int32_t), .use = object_use::output},
                {.name = "found", .bytes = sizeof(std::int32_t), .use = object_use::scratch}};
    rules_ = {{.object = object_levels, .type = element::i32}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    auto const blocks = static_cast<unsigned>(std::min<std::uint64_t>((n() + 255) / 256, 1 << 14));
    auto* const levels = a.of<std::int32_t>(object_levels);
    launch_on(a, {{object_levels, access::write}}, begin_levels, blocks, 256, levels, n(),
              graph().source);
    if (auto const file = a.own_file(object_edges); !file.empty())
      return search_by_hand(a, file, blocks);
    for (std::int32_t level = 0;; ++level) {
      clear_found(a);
      launch_on(a,
                {{object_offsets, access::read},
                 {object_edges, access::read},
                 {object_levels, access::read_write},
                 {object_found, access::read_write}},
                expand, blocks, 256, a.of<std::uint64_t const>(object_offsets),
                a.of<std::uint64_t const>(object_edges), levels, n(), level,
                a.of<std::int32_t>(object_found));
      if (!has_found(a)) return;
    }
  }

  void prepare_reference() override {
    if (!levels_.empty()) return;
    auto const& [csr, source] = graph();
    levels_.assign(n(), no_level);
    levels_[source] = 0;
    std::vector<std::uint64_t> queue{source};
    for (std::uint64_t at = 0; at < queue.size(); ++at) {
      std::uint64_t const v = queue[at];
      for (std::uint64_t e = csr.offsets[v]; e < csr.offsets[v + 1]; ++e) {
        std::uint64_t const u = csr.edges[e];
        if (levels_[u] != no_level) continue;
        levels_[u] = levels_[v] + 1;
        queue.push_back(u);
      }
    }
  }

  void reference(unsigned, std::uint64_t first, std::span<double> to) const override {
    for (std::uint64_t i = 0; i < to.size(); ++i) to[i] = levels_[first + i];
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    c.equal("fill_bytes", got.fill_bytes,
            objects_[object_offsets].bytes + objects_[object_edges].bytes);
    c.equal("fills_skipped", got.fills_skipped, objects_[object_levels].bytes);
    c.equal("writeback_bytes", got.writeback_bytes, objects_[object_levels].bytes);
  }

 private:
  static constexpr std::uint64_t least_gather = 4096;

  static void clear_found(file_arrays& a) {
    std::int32_t const none = 0;
    a.write(object_found, 0, &none, sizeof none);
  }
  static bool has_found(file_arrays& a) {
    std::int32_t found = 0;
    auto const now = a.read(object_found, {.first = 0, .row_bytes = sizeof found});
    std::memcpy(&found, now.data, sizeof found);
    return found != 0;
  }

  // The lists lie in the file. The CPU reads which vertices a level has, and gathers their lists.
  void search_by_hand(file_arrays& a, std::string const& file, unsigned blocks) const {
    auto const* const offsets =
        a.read(object_offsets, {.first = 0, .row_bytes = objects_[object_offsets].bytes})
            .row<std::uint64_t>(0);
    list_gather lists(file, gathers_);
    for (std::int32_t level = 0;; ++level) {
      clear_found(a);
      auto const now = a.read(object_levels, {.first = 0, .row_bytes = n() * sizeof level});
      auto const runs = lists_of(now.row<std::int32_t>(0), offsets, n(), level);
      lists.for_each_part(runs, [&](std::uint64_t const* edges, std::uint64_t count) {
        launch_on(a, {}, reach, blocks, 256, edges, count, a.of<std::int32_t>(object_levels), level,
                  a.of<std::int32_t>(object_found));
      });
      if (!has_found(a)) return;
    }
  }

  [[nodiscard]] std::uint64_t n() const { return std::uint64_t{1} << scale_; }
  [[nodiscard]] searched_graph const& graph() const {
    std::call_once(once_, [this] { graph_ = graph_of(scale_, seed_); });
    return *graph_;
  }

  std::uint64_t seed_;
  unsigned scale_;
  std::uint64_t gathers_;  // bytes
  mutable std::once_flag once_;
  mutable std::shared_ptr<searched_graph const> graph_;
  std::vector<std::int32_t> levels_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_outofcore_bfs = {
    .name = "outofcore-bfs",
    .what = "levels of an R-MAT graph whose lists of neighbours are a file",
    .parameters = {{"footprint", 1 << 20, 4ull << 30, "bytes of the lists, about",
                    vertex_bytes << analytics::lowest_scale,
                    vertex_bytes << analytics::highest_scale},
                   {"gather", 0, 0,
                    "of hand: the CPU gathers the lists of each level, with so many bytes of GPU "
                    "memory; 0: it has the whole file",
                    0, 1ull << 48}},
    .make = make_file_program<outofcore_bfs>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
