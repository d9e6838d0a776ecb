// gpufs-stress: what rounds take, wrong bytes that they must find, and counts of what they compare.
#include <gpufs/device.hpp>
#include <gpufs/settings.hpp>

#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/round.hpp>
#include <apps/gpufs-stress/site.hpp>
#include <apps/gpufs-stress/verify.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::stress;

namespace {

bool is_emulated() { return current_device().kind == "emulated"; }

/// A round of the test's seed in which nobody writes and nothing is killed.
round_plan quiet_plan(bool wide, std::uint64_t number = 0) {
  std::uint64_t const seed = (test::seed() + number) / 2 * 2 + (wide ? 1 : 0);
  round_plan p = draw_plan(seed, is_emulated(), {least_memory, least_memory});
  p.impatient = false;
  p.settings.rpc_timeout_ms = 60'000;
  p.launches = 1;
  // Tight caches take long on a GPU if there are many workers.
  if (!wide) p.blocks = std::min(p.blocks, 8u);
  p.operations = std::min(p.operations, test::scaled(64, 8));
  p.writes = 0;
  p.filled = true;
  p.host_writes = p.foreign_writes = p.forks = false;
  p.kill_after = 0;
  return p;
}

std::string in_hex(unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, "%#x", value);
  return text;
}

/// Changes a byte of a file and returns what it is now.
unsigned damage(std::string const& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  int const changed = file.get() ^ 0x40;
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(changed));
  REQUIRE(file.flush());
  return static_cast<unsigned>(changed);
}

std::vector<std::optional<cell_versions>> all_cells(round_plan const& p, cell_versions v) {
  return std::vector<std::optional<cell_versions>>(p.cells, v);
}

}  // namespace

TEST_CASE("rounds have settings that the library takes, and keep to their memory") {
  for (std::uint64_t i = 0; i < 4000; ++i) {
    std::uint64_t const seed = test::seed() + i;
    bool const emulated = i % 4 == 0;
    memory_limits const limits =
        i % 3 == 0 ? memory_limits{} : memory_limits{least_memory << i % 5, least_memory << i % 7};
    round_plan const p = draw_plan(seed, emulated, limits);
    CAPTURE(seed);
    CAPTURE(to_text(p));
    CHECK_NOTHROW(validate(p.settings));
    CHECK(p.wide == (seed % 2 == 1));
    CHECK(p.threads <= 512);
    CHECK(p.cell_bytes % 8 == 0);
    CHECK(p.cell_bytes > 0);
    CHECK(p.cells >= p.owners());
    CHECK(p.cells_at_once >= 1);
    CHECK(p.cells_at_once <= round_plan::most_cells_at_once);
    CHECK(p.operations >= 8);
    CHECK(p.file_bytes() <= limits.host / 2);
    config const& c = p.settings;
    std::uint64_t const workers = std::uint64_t(p.filesystems) * p.workers();
    CHECK(p.filesystems * c.cache_size + workers * p.cells_at_once * p.cell_bytes +
              p.cells * sizeof(cell_versions) + workers * p.launches * p.operations <=
          limits.gpu);
    CHECK(p.file_bytes() + p.filesystems * (c.prefetch_memory + c.staging_size + c.write_memory) <=
          limits.host);
    CHECK(to_text(draw_plan(seed, emulated, limits)) == to_text(p));
  }
}

TEST_CASE("a wide round has many warps, and reads its file several times") {
  for (std::uint64_t i = 0; i < 500; ++i) {
    round_plan const p = draw_plan((test::seed() + i) | 1, false, {});
    CAPTURE(to_text(p));
    CHECK(p.wide);
    CHECK(p.filled);
    CHECK(p.blocks >= 96);
    CHECK(p.blocks * p.threads / 32 >= 384);
    CHECK(p.file_bytes() >= 500ull << 20);
  }
}

TEST_CASE("kernels find wrong bytes") {
  for (unsigned i = 0; i < test::scaled(6, 2); ++i) {
    round_plan const p = quiet_plan(i % 2 == 0, i);
    CAPTURE(to_text(p));
    test::scratch_folder const folder;
    make_cells(cell_file(folder.path()), p);
    auto bytes = test::pread_bytes(cell_file(folder.path()), 0, p.file_bytes());
    // Whatever cell is read, and whichever part of it.
    for (std::uint64_t k = p.seed % 8; k < bytes.size(); k += 8) bytes[k] ^= std::byte{0x40};
    test::write_bytes(cell_file(folder.path()), bytes);
    board const shared(p.cells);
    run_round(p, folder.path(), 1, shared);
    std::string const problem(shared.problem());
    CAPTURE(problem);
    CHECK(problem.starts_with("filesystem "));
    CHECK(problem.find("which is of none of the versions 0 to 0") != std::string::npos);
    CHECK(shared.header().finished.load() == 0);
  }
}

TEST_CASE("one wrong byte of a round is found, and named") {
  for (unsigned i = 0; i < test::scaled(8, 2); ++i) {
    round_plan const p = quiet_plan(i % 2 == 0, i);
    CAPTURE(to_text(p));
    test::scratch_folder const folder;
    make_cells(cell_file(folder.path()), p);
    std::uint64_t const at = apps::generate(p.seed, 77) % p.file_bytes();
    // The other process has not begun, but its cells are compared by the supervisor.
    if (at / p.cell_bytes % p.owners() == p.foreign_owner()) continue;
    unsigned const value = damage(cell_file(folder.path()), at);
    board const shared(p.cells);
    run_round(p, folder.path(), 1, shared);
    std::string const problem(shared.problem());
    CAPTURE(problem);
    CHECK(problem.find("(byte " + std::to_string(at) + " of the file) is " + in_hex(value) +
                       ", which is of none of the versions 0 to 0") != std::string::npos);
  }
}

TEST_CASE("a round counts each byte that is compared once") {
  for (bool const wide : {false, true}) {
    round_plan p = quiet_plan(wide);
    p.filesystems = 1;
    p.launches = 2;
    p.cells_at_once = 1;
    p.weights = {.read = 0,
                 .read_many = 1,
                 .element = 0,
                 .map = 0,
                 .sync = 0,
                 .open_again = 0,
                 .append = 0,
                 .advise = 0};
    CAPTURE(to_text(p));
    test::scratch_folder const folder;
    make_cells(cell_file(folder.path()), p);
    board const shared(p.cells);
    run_round(p, folder.path(), 1, shared);
    CHECK(shared.problem() == "");
    board_header const& h = shared.header();
    std::uint64_t const operations = std::uint64_t(p.workers()) * p.launches * p.operations;
    CHECK(h.operations.load() == operations);
    CHECK(h.kernel_bytes.load() == operations * p.cell_bytes);
    std::uint64_t const foreign = cells_of(p.foreign_owner(), p.cells, p.owners());
    CHECK(h.file_bytes.load() == (p.cells - foreign) * p.cell_bytes);
    CHECK(h.finished.load() == 1);
  }
}

TEST_CASE("a round whose end is asked for ends early, and is compared whole") {
  round_plan const p = quiet_plan(true);
  CAPTURE(to_text(p));
  test::scratch_folder const folder;
  make_cells(cell_file(folder.path()), p);
  site s(p, folder.path(), 0);
  s.end();
  s.run_kernels();
  CHECK(s.progress().operations == 0);
  CHECK(s.close() == "");
}

TEST_CASE("the host knows how many writes each cell gets") {
  for (bool const wide : {false, true}) {
    round_plan p = quiet_plan(wide);
    p.filesystems = 1;
    p.launches = 2;
    p.writes = 30;
    CAPTURE(to_text(p));
    test::scratch_folder const folder;
    make_cells(cell_file(folder.path()), p);
    site s(p, folder.path(), 0);
    s.run_kernels();
    CHECK(s.close() == "");
    auto const most = most_versions(p);
    auto const versions = s.versions();
    REQUIRE(versions.size() == most.size());
    for (std::uint64_t c = 0; c < p.cells; ++c) {
      REQUIRE(versions[c].begun == most[c]);
      REQUIRE(versions[c].acknowledged == most[c]);
    }
  }
}

TEST_CASE("files are compared byte by byte with the versions that they may have") {
  round_plan p;
  p.seed = test::seed();
  p.cells = 1000;
  p.cell_bytes = 8 * (1 + p.seed % 500);
  p.filled = true;
  test::scratch_folder const folder;
  std::string const path = cell_file(folder.path());
  make_cells(path, p);
  comparison const clean = compare_cells(path, p, all_cells(p, {0, 0}));
  CHECK(clean.problem == "");
  CHECK(clean.bytes == p.file_bytes());
  auto some = all_cells(p, {0, 0});
  some[7].reset();
  CHECK(compare_cells(path, p, some).bytes == p.file_bytes() - p.cell_bytes);
  // A word of version 1 up to its third byte.
  auto const newer = cell_bytes_of(p, 500, 1);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(500 * p.cell_bytes));
  file.write(reinterpret_cast<char const*>(newer.data()), 3);
  REQUIRE(file.flush());
  CHECK(compare_cells(path, p, all_cells(p, {0, 1})).problem == "");
  std::uint64_t first = 0;  // that tells the versions apart
  while (newer[first] == cell_bytes_of(p, 500, 0)[first]) ++first;
  if (first < 3) {
    CHECK(compare_cells(path, p, all_cells(p, {0, 0}))
              .problem.find("byte " + std::to_string(first) + " of cell 500") != std::string::npos);
  }
  CHECK(compare_cells(path, p, all_cells(p, {1, 1})).problem != "");
  test::set_size(path, p.file_bytes() - 1);
  CHECK(compare_cells(path, p, all_cells(p, {0, 1})).problem.find("bytes, not") !=
        std::string::npos);
}

TEST_CASE("a file that is not filled begins with zeros") {
  round_plan p;
  p.seed = test::seed();
  p.cells = 10;
  p.cell_bytes = 4096;
  test::scratch_folder const folder;
  make_cells(cell_file(folder.path()), p);
  CHECK(test::pread_bytes(cell_file(folder.path()), 0, p.file_bytes()) ==
        std::vector<std::byte>(p.file_bytes()));
  CHECK(compare_cells(cell_file(folder.path()), p, all_cells(p, {0, 0})).problem == "");
}
