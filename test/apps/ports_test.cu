// The file-input applications: every one right in every mode, and each level of every checker able
// to fail.
#include <gpufs/gpufs.hpp>

#include <apps/common/generator.hpp>
#include <apps/common/program.hpp>
#include <apps/harness/session.hpp>
#include <apps/harness/verify.hpp>
#include <apps/ports/all.hpp>
#include <apps/ports/bfs_graph.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::apps;

namespace {

problem smoke(port_description const& what, bool random) {
  problem p;
  p.random = random;
  p.seed = test::seed();
  for (auto const& e : what.extras) p.extras[e.name] = e.value;
  return p;
}

/// A cache that the inputs do not fit into, with readahead.
config small_cache() {
  config c = test::small_config(4096, 32);
  c.prefetch_size = 16384;
  return c;
}

io_shape const shape{8, 64, 24 << 10};

void flip_byte_on_device(buffer<std::byte>& array, std::uint64_t at) {
  std::byte value;
  array.copy_to_host(&value, 1, at);
  value ^= std::byte{0x10};
  array.copy_from_host(&value, 1, at);
}

/// Element i with a high bit of its exponent, or of its value, flipped.
void flip_high_bit(host_outputs& out, std::size_t array, std::uint64_t i) {
  std::uint64_t const size = size_of(out.shapes()[array].type);
  unsigned const bit = out.shapes()[array].type == element::f32 ? 30 : 5;
  out.bytes(array)[i * size + bit / 8] ^= std::byte(1u << bit % 8);
}

/// A matrix of random floats with its sidecar, as --input takes it.
std::string real_matrix(test::scratch_folder const& folder, std::string const& name,
                        std::uint64_t rows, std::uint64_t columns) {
  std::vector<float> values(rows * columns);
  for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = uniform(test::seed(), i);
  auto const bytes = std::as_bytes(std::span(values));
  test::write_bytes(folder / name, {bytes.begin(), bytes.end()});
  std::ofstream(folder / (name + ".meta")) << "rows=" << rows << "\ncolumns=" << columns << '\n';
  return folder / name;
}

/// An empty file, or a hole, with a sidecar that tells its shape.
std::string real_hole(test::scratch_folder const& folder, std::string const& name,
                      std::uint64_t rows, std::uint64_t columns, std::uint64_t bytes) {
  test::set_size(folder / name, bytes);
  std::ofstream(folder / (name + ".meta")) << "rows=" << rows << "\ncolumns=" << columns << '\n';
  return folder / name;
}

problem with_input(port_description const& what, std::string const& path) {
  problem p = smoke(what, true);
  p.input = path;
  return p;
}

/// How `path` is refused; empty if it is not.
std::string refusal(port_description const& what, std::string const& path) {
  try {
    (void)what.make(with_input(what, path));
    return {};
  } catch (usage_error const& e) {
    return e.what();
  }
}

template <class Body>
void for_each_port(Body const& body) {
  for (auto const* what : all_ports()) {
    CAPTURE(what->name);
    body(*what);
  }
}

}  // namespace

TEST_CASE(
    "every application: the bytes that gread brings and the outputs are right, with both "
    "generators") {
  for_each_port([](port_description const& what) {
    for (bool const random : {false, true}) {
      CAPTURE(random);
      session s(what, smoke(what, random), "");
      s.run(*make_gread_loader(small_cache(), shape));
      verdict const v = verify(s);
      CHECK(v.text() == "integrity, cross-mode, reference");
    }
  });
}

TEST_CASE("the applications' own options: other wavelets, more steps, the suite's own kernels") {
  struct {
    port_description const* what;
    char const* option;
    char const* value;
  } const cases[] = {
      {&port_dwt2d, "filter", "97"},      {&port_hotspot, "pitch", "chip"},
      {&port_hotspot, "iterations", "7"}, {&port_stencil, "iterations", "5"},
      {&port_stencil, "iterations", "1"}, {&port_mvt, "compute", "orig"},
      {&port_bicg, "compute", "orig"},    {&port_atax, "compute", "orig"},
      {&port_gesummv, "compute", "orig"},
  };
  for (auto const& c : cases) {
    CAPTURE(c.what->name);
    CAPTURE(c.value);
    problem p = smoke(*c.what, true);
    p.extras.at(c.option) = c.value;
    session s(*c.what, p, "");
    s.run(*make_gread_loader(small_cache(), shape));
    CHECK(verify(s).text() == "integrity, cross-mode, reference");
    if (!c.what->fused) continue;
    gread_files files(small_cache());
    CHECK(verify_fused(s, files, shape).text() == "integrity, cross-mode, reference");
  }
}

TEST_CASE(
    "every application that reads its file in its own kernel: what it reads and what it computes "
    "is right") {
  for_each_port([](port_description const& what) {
    if (!what.fused) return;
    // With the paper's number of blocks some strips are one row, some empty.
    for (unsigned const blocks : {1u, 5u, 8u, test::scaled(what.blocks, 16)}) {
      CAPTURE(blocks);
      session s(what, smoke(what, true), "");
      gread_files files(small_cache());
      io_shape const cut{blocks, 64, 24 << 10};
      CHECK_NOTHROW(s.run_fused(files, cut, false));
      CHECK(verify_fused(s, files, cut).text() == "integrity, cross-mode, reference");
    }
  });
}

TEST_CASE("hand-written, pipelined, and on the host: the same") {
  for_each_port([](port_description const& what) {
    session s(what, smoke(what, true), "");
    s.run(*make_pipelined_loader());
    CHECK(verify(s).text() == "integrity, cross-mode, reference");
    s.run(*make_cpuio_loader(s.largest_file(), true));
    CHECK(verify(s).text() == "integrity, cross-mode, reference");
    mapped_inputs const maps = s.data().map();
    CHECK(verify_host(s, s.application().reference(maps.view())).text() == "integrity, reference");
  });
}

TEST_CASE("level 1: a flipped byte of an input array is found, wherever it is") {
  for_each_port([](port_description const& what) {
    session s(what, smoke(what, true), "");
    s.run(*make_cpuio_loader(s.largest_file(), false));
    REQUIRE(s.integrity().empty());
    for (std::size_t i = 0; i < s.input_arrays().size(); ++i) {
      std::uint64_t const bytes = s.data().files()[i].file.size();
      for (std::uint64_t const at :
           {std::uint64_t{0}, generate_below(test::seed(), i, bytes), bytes - 1}) {
        CAPTURE(at);
        flip_byte_on_device(s.input_arrays()[i], at);
        CHECK(s.integrity().find("not what was generated") != std::string::npos);
        flip_byte_on_device(s.input_arrays()[i], at);
      }
    }
    CHECK(s.integrity().empty());
  });
}

TEST_CASE(
    "level 1: a flipped byte of a kept file is found in every mode, and the file is taken as it "
    "is") {
  test::scratch_folder const folder;
  for_each_port([&](port_description const& what) {
    std::string const data = folder / std::string(what.name);
    problem const p = smoke(what, true);
    {
      session first(what, p, data);
      CHECK(first.data().changed().empty());
    }
    std::string path;
    {
      session const again(what, p, data);  // finds the files
      path = again.data().files().back().file.path();
    }
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      char c;
      file.get(c);
      file.seekp(0);
      file.put(static_cast<char>(c ^ 0x20));
    }
    session s(what, p, data);
    CHECK(s.data().changed().find(path) != std::string::npos);
    // The computation is not run on such a file: its indices may lead anywhere.
    if (!what.fused) return;
    gread_files files(small_cache());
    s.run_fused(files, shape, true);
    CHECK(s.integrity_of(files).find(path) != std::string::npos);
  });
}

TEST_CASE("level 2: a flipped byte of an output is found, wherever it is") {
  for_each_port([](port_description const& what) {
    session s(what, smoke(what, true), "");
    s.run(*make_cpuio_loader(s.largest_file(), false));
    host_outputs const right = s.outputs();
    host_outputs wrong = right;
    for (std::size_t i = 0; i < right.shapes().size(); ++i) {
      std::uint64_t const bytes = right.bytes(i).size();
      for (std::uint64_t const at :
           {std::uint64_t{0}, generate_below(test::seed(), i, bytes), bytes - 1}) {
        wrong.bytes(i)[at] ^= std::byte{1};
        CHECK(difference(wrong, right, true).find(right.shapes()[i].name) == 0);
        wrong.bytes(i)[at] ^= std::byte{1};
      }
    }
    CHECK(difference(wrong, right, true).empty());
  });
}

TEST_CASE("level 3: a changed exponent bit of any output is found by the reference") {
  for_each_port([](port_description const& what) {
    session s(what, smoke(what, true), "");
    s.run(*make_cpuio_loader(s.largest_file(), false));
    mapped_inputs const maps = s.data().map();
    host_inputs const in = maps.view();
    host_outputs got = s.outputs();
    REQUIRE(s.application().check(in, got).empty());
    for (std::size_t i = 0; i < got.shapes().size(); ++i) {
      std::uint64_t const count = got.shapes()[i].count;
      for (std::uint64_t const at :
           {std::uint64_t{0}, generate_below(test::seed(), 7 + i, count), count - 1}) {
        CAPTURE(got.shapes()[i].name);
        CAPTURE(at);
        flip_high_bit(got, i, at);
        CHECK_FALSE(s.application().check(in, got).empty());
        flip_high_bit(got, i, at);
      }
    }
  });
}

TEST_CASE(
    "a real matrix whose rows are no whole words: the kernel that reads it is right, and a change "
    "of any float is found") {
  struct {
    std::uint64_t rows, columns;
  } const shapes[] = {{37, 41}, {41, 1}, {1, 9}, {40, 3}, {12, 8}};
  for (auto const& [rows, columns] : shapes) {
    for (unsigned const blocks : {1u, 5u, 64u}) {
      CAPTURE(rows);
      CAPTURE(columns);
      CAPTURE(blocks);
      test::scratch_folder const folder;
      std::string const path = real_matrix(folder, "a.f32", rows, columns);
      io_shape const cut{blocks, 64, 24 << 10};
      session s(port_2dconv, with_input(port_2dconv, path), "");
      {
        gread_files files(small_cache());
        CHECK(verify_fused(s, files, cut).text() == "integrity, cross-mode, reference");
      }
      // The floats at both ends of rows: of words that two rows, or two blocks, share.
      for (std::uint64_t const at : {columns - 1, columns % (rows * columns), rows * columns - 1}) {
        CAPTURE(at);
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        auto const flip = [&] {
          file.seekg(static_cast<std::streamoff>(4 * at + 1));
          auto const c = static_cast<char>(file.get() ^ 0x20);
          file.seekp(static_cast<std::streamoff>(4 * at + 1));
          file.put(c).flush();
        };
        flip();
        gread_files files(small_cache());
        s.run_fused(files, cut, true);
        CHECK(s.integrity_of(files).find(path) != std::string::npos);
        flip();
      }
    }
  }
}

TEST_CASE("a graph whose indices lead out of it is refused, with the node or the edge that does") {
  test::scratch_folder const folder;
  std::string const path = folder / "graph.bfs";
  random_graph const graph(100, test::seed());
  graph_header const h = graph.header();
  std::vector<std::byte> right(file_bytes(h));
  graph.fill(0, right);
  auto const refused_with = [&](std::uint64_t offset, auto value) {
    auto changed = right;
    std::memcpy(changed.data() + offset, &value, sizeof(value));
    test::write_bytes(path, changed);
    return refusal(port_bfs, path);
  };
  auto const edges = static_cast<std::int32_t>(h.edges);
  auto const node = [&](std::uint64_t u) { return h.node_offset + u * sizeof(graph_node); };

  CHECK(refused_with(0, graph_magic).empty());
  std::string const file = "--input=" + path + ": ";
  for (std::int32_t const to : {1000000000, 100, -5}) {
    CHECK(refused_with(h.edge_offset + 4 * 17, to) ==
          file + "edge 17 leads to node " + std::to_string(to) + ": must be from 0 to 99");
  }
  for (graph_node const n :
       {graph_node{0, 2000000000}, graph_node{-1, 1}, graph_node{1, -1}, graph_node{edges, 1},
        graph_node{std::numeric_limits<std::int32_t>::max(),
                   std::numeric_limits<std::int32_t>::max()}}) {
    CHECK(refused_with(node(99), n) == file + "node 99 has start " + std::to_string(n.start) +
                                           " and degree " + std::to_string(n.degree) +
                                           ": both must be from 0, and their sum at most " +
                                           std::to_string(edges) + ", the number of edges");
  }
  CHECK(refused_with(node(99), graph_node{edges, 0}).empty());
  std::string const no_graph = file + "must be a graph file as scripts/fetch_data.py makes them";
  CHECK(refused_with(offsetof(graph_header, node_offset), std::uint64_t{1} << 40) == no_graph);
  CHECK(refused_with(offsetof(graph_header, source), h.nodes) == no_graph);
  CHECK(refused_with(offsetof(graph_header, nodes), (std::uint64_t{1} << 61) + h.nodes) ==
        no_graph);
}

TEST_CASE("a picture with more rows than a grid has is refused, with the most that it may have") {
  test::scratch_folder const folder;
  std::string const tall = real_hole(folder, "tall.f32", 524281, 3, 524281 * 3 * 4);
  CHECK(refusal(port_2dconv, tall) ==
        "--input=" + tall + ": has 524281 rows: must have at most 524280");
  std::string const rgb = real_hole(folder, "tall.rgb8", 524281, 16, 524281 * 16 * 3);
  CHECK(refusal(port_dwt2d, rgb) ==
        "--input=" + rgb + ": has 524281 rows: must have at most 524280");
  CHECK(refusal(port_2dconv, real_hole(folder, "fits.f32", 524280, 3, 524280 * 3 * 4)).empty());
}

TEST_CASE(
    "a real file that is not there, or not of the size that its sidecar tells, is refused as "
    "that") {
  test::scratch_folder const folder;
  CHECK(refusal(port_nw, folder / "none.i32") ==
        "--input=" + (folder / "none.i32") + ": No such file or directory");
  std::uint64_t const side = std::uint64_t{1} << 31;  // 4 bytes of each: 2^64
  std::string const huge = real_hole(folder, "huge", side, side, 0);
  for (auto const* what : {&port_nw, &port_2dconv}) {
    CHECK(refusal(*what, huge) ==
          "--input=" + huge + ": has 0 bytes: by its .meta must have more than a file can have");
  }
  std::string const shorter = real_hole(folder, "short", 16, 16, 1000);
  CHECK(refusal(port_nw, shorter) ==
        "--input=" + shorter + ": has 1000 bytes: by its .meta must have 1024");
  std::ofstream(shorter + ".meta") << "rows=16abc\ncolumns=16\n";
  CHECK(refusal(port_nw, shorter) ==
        "--input=" + shorter + ": " + shorter +
            ".meta must have a line rows=NUMBER, from 1 to 2147483648");
}

TEST_CASE("level 3: an output that should be NaN or infinite is said not to be checkable") {
  host_outputs wanted({{"b", element::f32, 3, {1e-6, 1e-6}}});
  for (float const value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    wanted.as<float>(0)[1] = value;
    host_outputs const got = wanted;
    CHECK(difference(got, wanted, true).empty());
    CHECK(difference(got, wanted, false).find("which cannot be checked") != std::string::npos);
  }
}
