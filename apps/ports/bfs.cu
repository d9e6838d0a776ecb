// BFS (Rodinia): the level of every node of a graph, seen from one of them. Two kernels per level,
// as in the suite.
#include <gpufs/gpufs.hpp>

#include <apps/ports/all.hpp>
#include <apps/ports/bfs_graph.hpp>

#include <algorithm>
#include <optional>

namespace gpufs::apps {

namespace {

/// One byte per node.
struct node_flags {
  std::uint8_t* frontier;  ///< its neighbours are to be looked at
  std::uint8_t* updating;  ///< was reached in this level
  std::uint8_t* visited;
};

/// Several nodes may reach the same one at once, all with the same value. Relaxed: the next kernel
/// reads it.
template <class T>
__device__ void set(T& word, T value) {
  atomic_ref<T, scope::device>(word).store(value, memory_order_relaxed);
}

__global__ void __launch_bounds__(512)
    start_search(graph_view graph, node_flags flags, std::int32_t* levels) {
  std::uint64_t const u = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (u >= graph.header.nodes) return;
  bool const source = u == graph.header.source;
  levels[u] = source ? 0 : -1;
  flags.frontier[u] = flags.visited[u] = source;
  flags.updating[u] = 0;
}

__global__ void __launch_bounds__(512)
    expand_frontier(graph_view graph, node_flags flags, std::int32_t* levels) {
  std::uint64_t const u = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (u >= graph.header.nodes || !flags.frontier[u]) return;
  flags.frontier[u] = 0;
  graph_node const n = graph.nodes[u];
  std::int32_t const level = levels[u] + 1;
  for (std::int32_t e = n.start; e < n.start + n.degree; ++e) {
    std::int32_t const v = graph.edges[e];
    if (flags.visited[v]) continue;
    set(levels[v], level);
    set(flags.updating[v], std::uint8_t{1});
  }
}

__global__ void __launch_bounds__(512)
    advance_frontier(graph_view graph, node_flags flags, std::int32_t* again) {
  std::uint64_t const u = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (u >= graph.header.nodes || !flags.updating[u]) return;
  flags.updating[u] = 0;
  flags.frontier[u] = flags.visited[u] = 1;
  set(*again, 1);
}

class bfs final : public port {
 public:
  explicit bfs(problem const& p) : problem_(p) {
    if (p.input.empty()) {
      random_.emplace(
          p.pick(std::uint64_t{1} << 12, std::uint64_t{1} << 21, std::uint64_t{1} << 25), p.seed);
      header_ = random_->header();
    } else {
      header_ = check_graph(p.input);
    }
  }

  std::vector<input_file> files() const override {
    input_file f;
    f.name = "graph.bfs";
    f.bytes = file_bytes(header_);
    f.sections = {{0, header_.edge_offset, sizeof(graph_node)},
                  {header_.edge_offset, f.bytes - header_.edge_offset, sizeof(std::int32_t)}};
    f.path = problem_.input;
    if (random_)
      f.fill = [graph = *random_](std::uint64_t offset, std::span<std::byte> to) {
        graph.fill(offset, to);
      };
    return {f};
  }

  std::vector<output_array> outputs() const override {
    return {{"level", element::i32, header_.nodes, {}}};
  }

  void prepare() override {
    frontier_ = buffer<std::uint8_t>(header_.nodes);
    updating_ = buffer<std::uint8_t>(header_.nodes);
    visited_ = buffer<std::uint8_t>(header_.nodes);
    again_ = buffer<std::int32_t>(1);
    load_kernel(start_search);
    load_kernel(expand_frontier);
    load_kernel(advance_frontier);
  }

  void compute(device_arrays const& a) override {
    graph_view const graph = view_graph(header_, a.input<std::byte>(0));
    node_flags const flags{frontier_.data(), updating_.data(), visited_.data()};
    auto const blocks = static_cast<unsigned>((header_.nodes + 511) / 512);
    launch(start_search, blocks, 512, graph, flags, a.output<std::int32_t>(0));
    for (std::int32_t again = 1; again != 0;) {
      again_.fill_zero();  // the kernels before have ended, or do not use it
      launch(expand_frontier, blocks, 512, graph, flags, a.output<std::int32_t>(0));
      launch(advance_frontier, blocks, 512, graph, flags, again_.data());
      this_thread_stream().synchronize();
      again_.copy_to_host(&again, 1);
    }
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    std::ranges::copy(levels_of(view_graph(header_, in.files[0].data())),
                      out.as<std::int32_t>(0).begin());
    return out;
  }

  std::string check(host_inputs const& in, host_outputs const& got) const override {
    return check_levels(view_graph(header_, in.files[0].data()), got.as<std::int32_t>(0));
  }

 private:
  problem problem_;
  std::optional<random_graph> random_;
  graph_header header_{};
  buffer<std::uint8_t> frontier_, updating_, visited_;
  buffer<std::int32_t> again_;
};

}  // namespace

port_description const port_bfs{
    .name = "bfs",
    .summary = "Rodinia BFS: breadth-first search of a graph that is read from a file",
    .blocks = 128,
    .fused = false,
    .real_input =
        "a graph file as scripts/fetch_data.py makes them, with every edge in both directions "
        "(--check relies on it)",
    .pictures = false,
    .extras = {},
    .make = [](problem const& p) -> std::unique_ptr<port> { return std::make_unique<bfs>(p); },
};

}  // namespace gpufs::apps
