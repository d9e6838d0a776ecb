// Graphs in files: a page for the header, where each list begins, the lists.
#pragma once

#include <apps/analytics/graph/csr_graph.hpp>
#include <apps/harness/data_set.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::analytics {

inline constexpr std::uint64_t header_bytes = 4096;

/// The first bytes of the file; zeros up to header_bytes. Numbers are little-endian.
struct graph_header {
  std::array<char, 8> magic;  ///< GPUFSCSR
  std::uint64_t version;      ///< 1
  std::uint64_t vertices;
  std::uint64_t edges;       ///< directed ones: each undirected one counts twice
  std::uint64_t id_bytes;    ///< 8, of each entry of a list
  std::uint64_t offsets_at;  ///< vertices + 1 numbers of 8 bytes
  std::uint64_t edges_at;    ///< a multiple of header_bytes
  std::uint64_t flags;       ///< undirected_graph | sorted_lists
  std::uint64_t seed;
  std::uint64_t checksum;  ///< checksum() of what follows the header
  std::array<char, 32> generator;

  [[nodiscard]] std::uint64_t file_bytes() const { return edges_at + edges * id_bytes; }
  [[nodiscard]] std::string_view made_by() const {
    std::string_view const all(generator.data(), generator.size());
    return all.substr(0, all.find('\0'));
  }
};
static_assert(sizeof(graph_header) <= header_bytes);

inline constexpr std::uint64_t undirected_graph = 1, sorted_lists = 2;

/// Bytes of the file of a graph with so many directed edges.
[[nodiscard]] std::uint64_t graph_file_bytes(std::uint64_t vertices, std::uint64_t edges);

/// Throws usage_error naming --file if no file can be made there, or what is there is neither empty
/// nor a graph, or is one of the `inputs`.
void check_graph_target(std::string const& path, std::vector<std::string> const& inputs);

/// Writes a graph to a file that appears whole or not at all. Throws std::system_error naming it,
/// and usage_error if there is no room.
void write_graph(std::string const& path, csr_graph const& g, std::string_view generator,
                 std::uint64_t seed);

/// A graph file, open for reading.
class graph_file {
 public:
  /// Looks at header, size and offsets. Throws usage_error naming --file and what is wrong, or
  /// std::system_error.
  explicit graph_file(std::string const& path);

  [[nodiscard]] graph_header const& header() const { return header_; }
  [[nodiscard]] data_file const& file() const { return file_; }
  [[nodiscard]] std::uint64_t const* offsets() const {
    return at<std::uint64_t>(header_.offsets_at);
  }
  [[nodiscard]] std::uint64_t const* edges() const { return at<std::uint64_t>(header_.edges_at); }
  [[nodiscard]] std::uint64_t degree(std::uint64_t v) const {
    return offsets()[v + 1] - offsets()[v];
  }

  /// Compares all bytes with the checksum, and each end of an edge with the number of vertices.
  /// Returns what is wrong, or an empty text.
  [[nodiscard]] std::string damage() const;

 private:
  template <class T>
  [[nodiscard]] T const* at(std::uint64_t offset) const {
    return reinterpret_cast<T const*>(map_.bytes().data() + offset);
  }

  data_file file_;
  mapped_file map_;
  graph_header header_{};
};

}  // namespace gpufs::apps::analytics
