// Breadth-first search and connected components, as the BaM paper does them (section 5.1): the
// neighbours' lists are read from the file while the search goes on.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/config.hpp>

#include <apps/analytics/graph/graph_file.hpp>
#include <apps/analytics/outcome.hpp>
#include <apps/analytics/run_options.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpufs::apps::analytics {

enum class algorithm { bfs, cc };

/// How a pass of bfs finds the vertices that the last one has reached.
/// scan   It looks at all vertices.
/// queue  The last pass has made a list of them.
enum class frontier { scan, queue };

/// What all variants work on.
struct search_setup {
  graph_file const* graph;
  algorithm what;
  frontier by;
  launch_shape shape;
  std::uint64_t stride;  ///< of groups of vertices, see strided.hpp
  config settings;
  advice lists;  ///< how the file will be read
  bool is_hot;   ///< later runs find the cache as the last one has left it
  bool is_warm;  ///< the OS page cache has the file: windows are registered before a run
  drive_set drives = {};
};

struct search_result {
  std::vector<std::uint32_t> values;  ///< of each vertex its level, or its component
  std::uint64_t passes = 0;
};

/// One variant, with the memory that it needs.
class graph_search {
 public:
  virtual ~graph_search() = default;

  /// Searches from `source`; of components it means nothing. The time ends when the values are on
  /// the host. Throws std::system_error or std::runtime_error naming the file, or device_error.
  [[nodiscard]] virtual run_outcome run(std::uint64_t source, search_result& to) = 0;

  /// Closes the file, so that the OS page cache can drop all of it. The next run opens it.
  virtual void close_file() {}
};

/// Throws device_error, usage_error for managed on the emulated device. `s` outlives the result.
[[nodiscard]] std::unique_ptr<graph_search> make_graph_search(variant how, search_setup const& s);

}  // namespace gpufs::apps::analytics
