#include <apps/analytics/graph/edge_list.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/data_set.hpp>

#include <fmt/format.h>

#include <charconv>
#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace gpufs::apps::analytics {

namespace {

constexpr std::string_view banner = "%%MatrixMarket";

/// The lines of a text, one after the other.
class lines {
 public:
  lines(std::string const& path, std::string_view text) : path_(path), text_(text) {}

  /// The next line that is not empty and no comment. Returns false at the end.
  bool next() {
    while (!text_.empty()) {
      std::size_t const end = std::min(text_.find('\n'), text_.size());
      line_ = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++number_;
      skip_blanks();
      if (!line_.empty() && line_[0] != '#' && line_[0] != '%') return true;
    }
    return false;
  }

  /// Takes a number from `low` to `high` off the line.
  std::uint64_t take(std::uint64_t low, std::uint64_t high) {
    skip_blanks();
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), value);
    std::string_view const rest(end, static_cast<std::size_t>(line_.data() + line_.size() - end));
    bool const ends = rest.empty() || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r';
    if (error != std::errc{} || !ends || value < low || value > high)
      refuse(fmt::format("must have a number from {} to {} here: \"{}\"", low, high,
                         line_.substr(0, 40)));
    line_ = rest;
    return value;
  }

  [[noreturn]] void refuse(std::string const& why) const {
    throw usage_error(fmt::format("--input={}: line {}: {}", path_, number_, why));
  }

 private:
  void skip_blanks() {
    line_.remove_prefix(std::min(line_.find_first_not_of(" \t\r"), line_.size()));
  }

  std::string const& path_;
  std::string_view text_;
  std::string_view line_;
  std::uint64_t number_ = 0;
};

/// Throws std::runtime_error if the graph does not fit into the machine's memory.
csr_graph graph_of(std::string const& path, std::vector<edge> const& edges,
                   std::uint64_t vertices) {
  std::uint64_t const needed = (vertices + 1 + 2 * edges.size()) * sizeof(std::uint64_t);
  std::uint64_t const memory =
      std::uint64_t(::sysconf(_SC_PHYS_PAGES)) * std::uint64_t(::sysconf(_SC_PAGESIZE));
  auto const refused = [&] {
    return std::runtime_error(fmt::format(
        "--input={}: {} vertices and {} edges take {} bytes of host memory, more than there is",
        path, vertices, edges.size(), needed));
  };
  if (needed > memory) throw refused();
  try {
    return build_graph(vertices, edges.size(), [&](std::uint64_t k) { return edges[k]; });
  } catch (std::bad_alloc const&) {
    throw refused();
  }
}

csr_graph read_matrix(std::string const& path, lines& text, std::string_view first_line) {
  if (first_line.find(" coordinate") == first_line.npos) {
    text.next();
    text.refuse("the matrix must be in the coordinate format");
  }
  if (!text.next()) text.refuse("must say how many rows, columns and entries there are");
  std::uint64_t const rows = text.take(1, most_vertices), columns = text.take(1, most_vertices);
  std::uint64_t const entries = text.take(0, ~0ull);
  std::vector<edge> edges;
  while (text.next()) {
    std::uint64_t const row = text.take(1, rows), column = text.take(1, columns);
    edges.push_back({row - 1, column - 1});
  }
  if (edges.size() != entries)
    text.refuse(fmt::format("the file ends after {} of {} entries", edges.size(), entries));
  return graph_of(path, edges, std::max(rows, columns));
}

}  // namespace

csr_graph read_edge_list(std::string const& path) {
  host_file const file(path);
  mapped_file const map(file);
  std::string_view const text(reinterpret_cast<char const*>(map.bytes().data()),
                              map.bytes().size());
  lines all(path, text);
  if (text.starts_with(banner)) return read_matrix(path, all, text.substr(0, text.find('\n')));
  std::vector<edge> edges;
  std::uint64_t last = 0;
  while (all.next()) {
    std::uint64_t const from = all.take(0, most_vertices - 1), to = all.take(0, most_vertices - 1);
    edges.push_back({from, to});
    last = std::max({last, from, to});
  }
  if (edges.empty()) throw usage_error(fmt::format("--input={}: must have an edge", path));
  return graph_of(path, edges, last + 1);
}

}  // namespace gpufs::apps::analytics
