// The graph file of bfs. What check_graph() accepts, is searched without a look beyond the file.
#include <apps/common/program.hpp>
#include <apps/ports/bfs_graph.hpp>
#include <test/fuzz/input.hpp>

#include <system_error>
#include <vector>

using namespace gpufs;
using fuzz::require;

namespace {

// The file with its sections at the multiples of 4096 where they must be. In the input they follow
// each other without gaps: the header, two bytes with the length of the nodes, nodes, edges.
std::string spread(fuzz::input in) {
  std::string file(in.bytes(sizeof(apps::graph_header)));
  file.resize(apps::graph_page);
  file += in.bytes(in.take<std::uint16_t>());
  file.resize((file.size() + apps::graph_page - 1) / apps::graph_page * apps::graph_page);
  return file += in.rest();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::input in{data, size};
  bool const as_it_is = in.take<std::uint8_t>() == 'r';
  std::string const file = as_it_is ? std::string(in.rest()) : spread(in);
  apps::graph_header h{};
  try {
    h = apps::check_graph(fuzz::put_file("graph", file));
  } catch (apps::usage_error const&) {
    return 0;
  }
  // As many bytes as the file has: AddressSanitizer sees a look behind them.
  std::vector<std::byte> bytes(file.size());
  std::memcpy(bytes.data(), file.data(), file.size());
  auto const graph = apps::view_graph(h, bytes.data());
  auto const levels = apps::levels_of(graph);
  require(levels.size() == h.nodes && levels[h.source] == 0, "the source has level 0");
  static_cast<void>(apps::check_levels(graph, levels));
  return 0;
}
