#include <apps/analytics/graph/graph_file.hpp>
#include <apps/common/checksum.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/program.hpp>
#include <apps/common/report_files.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <unistd.h>

namespace gpufs::apps::analytics {

namespace {

constexpr std::array<char, 8> magic = {'G', 'P', 'U', 'F', 'S', 'C', 'S', 'R'};

graph_header header_of(std::uint64_t vertices, std::uint64_t edges) {
  graph_header h{};
  h.magic = magic;
  h.version = 1;
  h.vertices = vertices;
  h.edges = edges;
  h.id_bytes = sizeof(std::uint64_t);
  h.offsets_at = header_bytes;
  std::uint64_t const end = h.offsets_at + (vertices + 1) * sizeof(std::uint64_t);
  h.edges_at = (end + header_bytes - 1) / header_bytes * header_bytes;
  h.flags = undirected_graph | sorted_lists;
  return h;
}

/// Copies what a section of the file, `bytes` at `section`, has in [offset, offset + to.size()).
void copy_section(std::uint64_t section, void const* bytes, std::uint64_t count,
                  std::uint64_t offset, std::span<std::byte> to) {
  std::uint64_t const begin = std::max(section, offset);
  std::uint64_t const end = std::min(section + count, offset + to.size());
  if (begin >= end) return;
  std::memcpy(to.data() + (begin - offset),
              static_cast<std::byte const*>(bytes) + (begin - section), end - begin);
}

std::uint64_t sum_of(std::span<std::byte const> part, std::uint64_t offset) {
  std::uint64_t sum = 0;
  for (std::uint64_t at = offset < header_bytes ? header_bytes - offset : 0; at < part.size();
       at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, part.data() + at, sizeof(word));
    sum += checksum_term(word, (offset + at - header_bytes) / sizeof(word));
  }
  return sum;
}

/// Writes the whole file, the checksum last. Returns 0 or errno.
int write_part(int fd, graph_header& h, csr_graph const& g) {
  std::atomic<std::uint64_t> sum{0};
  int const error =
      fill_file(fd, h.file_bytes(), [&](std::uint64_t offset, std::span<std::byte> to) {
        std::ranges::fill(to, std::byte{});
        copy_section(h.offsets_at, g.offsets.data(), g.offsets.size() * 8, offset, to);
        copy_section(h.edges_at, g.edges.data(), g.edges.size() * 8, offset, to);
        // Relaxed: a sum, read after the threads have ended.
        sum.fetch_add(sum_of(to, offset), std::memory_order_relaxed);
      });
  if (error != 0) return error;
  h.checksum = sum;
  ssize_t const wrote = ::pwrite(fd, &h, sizeof(h), 0);
  return wrote == static_cast<ssize_t>(sizeof(h)) ? 0 : wrote < 0 ? errno : EIO;
}

}  // namespace

std::uint64_t graph_file_bytes(std::uint64_t vertices, std::uint64_t edges) {
  return header_of(vertices, edges).file_bytes();
}

void check_graph_target(std::string const& path, std::vector<std::string> const& inputs) {
  check_report_files({{"--file", path}}, inputs);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw usage_error(fmt::format("--file={}: must be a regular file", path));
  host_file const old(path);
  std::array<char, magic.size()> first{};
  if (old.size() >= first.size()) old.read(first.data(), first.size(), 0);
  if (old.size() == 0 || first == magic) return;
  throw usage_error(fmt::format(
      "--file={}: is there, and is no graph file: move it away, or name another one", path));
}

void write_graph(std::string const& path, csr_graph const& g, std::string_view generator,
                 std::uint64_t seed) {
  graph_header h = header_of(g.vertices(), g.edges.size());
  h.seed = seed;
  std::ranges::copy(generator.substr(0, h.generator.size() - 1), h.generator.begin());
  require_free_space(folder_of(path), "--file", h.file_bytes());
  unfinished_file const file(path);
  int const fd = file.open_part();
  int const error = fd < 0 ? errno : write_part(fd, h, g);
  if (fd >= 0) ::close(fd);
  if (error != 0)
    throw std::system_error(error, std::generic_category(),
                            fmt::format("{} of {} bytes", path, h.file_bytes()));
  file.make_durable();
  file.put_in_place();
}

graph_file::graph_file(std::string const& path) : file_{host_file(path), {}, 0}, map_(file_.file) {
  auto const refuse = [&](std::string const& why) {
    throw usage_error(fmt::format("--file={}: {}", path, why));
  };
  std::uint64_t const size = file_.file.size();
  if (size >= header_bytes) header_ = *at<graph_header>(0);
  graph_header const& h = header_;
  if (h.magic != magic) refuse("must be a graph file, as `gpufs-graph make` makes them");
  if (h.version != 1 || h.id_bytes != sizeof(std::uint64_t))
    refuse(fmt::format("version {} with {} bytes for each vertex: must be 1 with {}", h.version,
                       h.id_bytes, sizeof(std::uint64_t)));
  if ((h.flags & undirected_graph) == 0) refuse("must have each edge in both directions");
  if (h.vertices == 0 || h.vertices > most_vertices || h.edges > size / h.id_bytes)
    refuse(
        fmt::format("{} vertices and {} edges: there must be from 1 to {} vertices, and no more "
                    "edges than fit in {} bytes",
                    h.vertices, h.edges, most_vertices, size));
  graph_header const right = header_of(h.vertices, h.edges);
  if (h.offsets_at != right.offsets_at || h.edges_at != right.edges_at ||
      size != right.file_bytes())
    refuse(fmt::format("{} vertices and {} edges: must have {} bytes, not {}", h.vertices, h.edges,
                       right.file_bytes(), size));
  std::uint64_t const wrong =
      parallel_find(h.vertices, [&](std::uint64_t v) { return offsets()[v] > offsets()[v + 1]; });
  if (wrong != h.vertices)
    refuse(fmt::format("the list of vertex {} ends before it begins", wrong));
  if (offsets()[0] != 0 || offsets()[h.vertices] != h.edges)
    refuse("the lists must begin with the first edge and end with the last one");
  file_.checksum = h.checksum;
}

std::string graph_file::damage() const {
  std::uint64_t const now = parallel_checksum(map_.bytes().subspan(header_bytes));
  if (now != header_.checksum)
    return fmt::format("{}: its checksum is {:016x}, not {:016x}", file_.file.path(), now,
                       header_.checksum);
  std::uint64_t const wrong =
      parallel_find(header_.edges, [&](std::uint64_t e) { return edges()[e] >= header_.vertices; });
  if (wrong == header_.edges) return {};
  return fmt::format("{}: edge {} leads to vertex {} of {}", file_.file.path(), wrong,
                     edges()[wrong], header_.vertices);
}

}  // namespace gpufs::apps::analytics
