// `gpufs tune`, the program: what it writes, what it leaves alone, what it refuses. Runs the
// program that lies beside this suite.
#include <gpufs/config.hpp>
#include <gpufs/mapping_settings.hpp>

#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

struct outcome {
  int status;
  std::string text;  // both outputs
};

std::string const small =
    " --cache 1M --staging 512K --prefetch-memory 1M --threads 32 --blocks 2 --req 16K ";

outcome gpufs_tune(std::string const& arguments, std::string const& environment = "") {
  auto const program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "gpufs";
  REQUIRE_MESSAGE(std::filesystem::exists(program),
                  "the program `gpufs` must lie beside this suite: build the target `programs`");
  std::FILE* const pipe =
      ::popen((environment + program.string() + " tune " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome o{-1, {}};
  std::array<char, 4096> part;
  for (std::size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    o.text.append(part.data(), n);
  int const status = ::pclose(pipe);
  o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return o;
}

bool contains(std::string const& text, std::string const& what) {
  return text.find(what) != std::string::npos;
}

/// How many lines begin with `what`.
unsigned lines_with(std::string const& text, std::string const& what) {
  unsigned count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.starts_with(what) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("gpufs tune: what it writes loads, and the file it read is as it was") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 300'000);
  auto const before_bytes = pread_bytes(path, 0, 300'000);
  struct ::stat before {
  }, after{};
  REQUIRE(::stat(path.c_str(), &before) == 0);
  auto const out = folder / "tuned.toml";
  auto const r = gpufs_tune(path + small + "--time 1s --out " + out + " --max-open-files 77");
  INFO(r.text);
  CHECK(r.status == 0);
  CHECK(contains(r.text, "GB/s"));
  CHECK(contains(r.text, "requests equal what pread gives"));
  config c;
  load_file(c, out);
  CHECK_NOTHROW(validate(c));
  CHECK(c.cache_size == 1 << 20);
  CHECK(c.max_open_files == 77);
  for (auto const* key : {"page_size", "prefetch_size", "host_threads", "io_path"})
    CHECK(contains(text_of(out), key));
  REQUIRE(::stat(path.c_str(), &after) == 0);
  CHECK(after.st_mtim.tv_sec == before.st_mtim.tv_sec);
  CHECK(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
  CHECK(after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
  CHECK(after.st_size == before.st_size);
  CHECK(pread_bytes(path, 0, 400'000) == before_bytes);
}

TEST_CASE("gpufs tune: a setting given on the command line keeps its value") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 100'000);
  auto const out = folder / "tuned.toml";
  auto const r = gpufs_tune(path + small + "--time 1s --out " + out +
                            " --page-size 2K --prefetch-size 6K --host-threads 1 --io-path pull");
  INFO(r.text);
  CHECK(r.status == 0);
  CHECK(contains(r.text, "trials: 1\n"));
  config c;
  load_file(c, out);
  CHECK(c.page_size == 2 << 10);
  CHECK(c.prefetch_size == 6 << 10);
  CHECK(c.host_threads == 1);
  CHECK(c.path == io_path::pull);
}

TEST_CASE("gpufs tune: if gpufs has the best settings already, it writes nothing and says so") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 100'000);
  auto const out = folder / "tuned.toml";
  std::string const tuned = " --page-size 2K --prefetch-size 6K --host-threads 1 --io-path pull";
  auto const arguments = path + " --threads 32 --blocks 2 --req 16K --time 1s --out " + out + tuned;
  std::string const environment =
      "GPUFS_CACHE_SIZE=1M GPUFS_STAGING_SIZE=512K GPUFS_PREFETCH_MEMORY=1M GPUFS_PAGE_SIZE=2K "
      "GPUFS_PREFETCH_SIZE=6K GPUFS_HOST_THREADS=1 ";
  auto r = gpufs_tune(arguments, environment + "GPUFS_IO_PATH=pull ");
  INFO(r.text);
  CHECK(r.status == 0);
  CHECK(contains(r.text, " in 3 runs"));
  CHECK(contains(r.text, out + " not written: gpufs has the best settings"));
  CHECK_FALSE(std::filesystem::exists(out));
  r = gpufs_tune(arguments, environment);
  CHECK(contains(r.text, out + " written"));
  CHECK(contains(text_of(out), " in 3 runs"));
}

TEST_CASE("gpufs tune: it changes no file unless told to, and only what it has measured") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 100'000);
  auto const bytes = pread_bytes(path, 0, 100'000);
  auto const out = folder / "tuned.toml";
  std::string const mine = "# mine\nlog = \"error\"\nrolling_size = 7 # of shared memory\n";
  std::ofstream(out) << mine << "page_size = \"64K\"\n";
  auto r = gpufs_tune(path + small + "--time 1s --out " + out);
  CHECK(r.status == 2);
  CHECK(contains(r.text, "--out=" + out + ": exists already"));
  CHECK(text_of(out) == mine + "page_size = \"64K\"\n");
  r = gpufs_tune(path + small +
                 "--time 1s --force --page-size 4K --prefetch-size 0 --host-threads 1 --out " +
                 out);
  INFO(r.text);
  CHECK(r.status == 0);
  CHECK(text_of(out).starts_with(mine + "# gpufs tune: "));
  config c;
  load_file(c, out);
  CHECK(c.page_size == 4 << 10);
  auto const link = folder / "link";
  std::filesystem::create_hard_link(path, link);
  r = gpufs_tune(path + small + "--time 1s --force --out " + link);
  CHECK(r.status == 2);
  CHECK(pread_bytes(path, 0, 200'000) == bytes);
}

TEST_CASE(
    "gpufs tune: what cannot be is said in one line that names it, before any time is spent") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 100'000);
  auto const empty = make_file(folder, "empty", 0);
  auto const out = " --out " + (folder / "out.toml");
  std::ofstream(folder / "no.toml") << "mine";
  std::ofstream(folder / "long.toml") << "trace = \"\"\"a\nb\"\"\"\n";
  struct {
    std::string arguments, message;
  } const rows[] = {
      {(folder / "none") + out, (folder / "none") + ": No such file or directory"},
      {empty + out, empty + ": is empty"},
      {folder.path() + out, folder.path() + ": must be a regular file"},
      {path + out + " --time 0", "--time=0: must be from 1 second to 24 hours"},
      {path + out + " --time soon", "--time=soon: must be from 1 second to 24 hours"},
      {path + out + " --page-size 3000", "--page-size=3000: must be a power of two"},
      {path + " --out " + (folder / "no/out.toml"), "there is no folder " + (folder / "no")},
      {path + " --out ''", "--out=: must name a file"},
      {out, "file is required"},
      {path + out + " --protocol lazy", "--protocol: is of gpufs tune --mapping"},
      {path + out + " --rounds 5", "--rounds: is of gpufs tune --mapping"},
      {path + " --force --out " + (folder / "no.toml"), "no.toml:1: "},
      {path + " --force --out " + folder.path(), "--out=" + folder.path() + ": must be a regular"},
      {path + " --force --out /dev/full", "--out=/dev/full: must be a regular file"},
      {path + " --force --out " + (folder / "long.toml"), "has text over several lines"},
  };
  for (auto const& row : rows) {
    CAPTURE(row.arguments);
    auto const r = gpufs_tune(row.arguments);
    CAPTURE(r.text);
    CHECK(r.status == 2);
    CHECK(contains(r.text, row.message));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "out.toml"));
  if (::geteuid() == 0) return;  // may write to any folder
  std::filesystem::create_directory(folder / "closed");
  REQUIRE(::chmod((folder / "closed").c_str(), 0500) == 0);
  auto const closed = gpufs_tune(path + " --out " + (folder / "closed/out.toml"));
  CHECK(closed.status == 2);
  CHECK(contains(closed.text, (folder / "closed") + ": Permission denied"));
}

TEST_CASE("gpufs tune --mapping: it sweeps blocks up to a vector, and rolling sizes") {
  scratch_folder folder;
  auto const out = folder / "tuned.toml";
  auto const r = gpufs_tune("--mapping --size 64K --rounds 3 --out " + out);
  INFO(r.text);
  CHECK(r.status == 0);
  for (auto const* size : {" 4K ", " 8K ", " 16K ", " 32K ", " 64K "})
    CHECK(contains(r.text, size));
  CHECK_FALSE(contains(r.text, " 128K "));
  CHECK(contains(r.text, "\nrolling_size\n"));
  for (auto const* begun : {"coherence_block: 6 settings, 3 runs each\n", "rolling_size: 9 "})
    CHECK(contains(r.text, std::string("gpufs tune: ") + begun));
  CHECK(contains(r.text, " in 3 runs"));
  CHECK(contains(r.text, "results verified: "));
#ifdef GPUFS_EMULATED
  CHECK(contains(r.text, "emulated device: correctness only"));
#endif
  // What is best is not known here. It is written if it is not the default.
  bool const is_default = contains(r.text, "with which the search began, is the best");
  CHECK(is_default == contains(r.text, out + " not written"));
  CHECK(is_default != std::filesystem::exists(out));
}

TEST_CASE("gpufs tune --mapping: a setting given on the command line keeps its value") {
  scratch_folder folder;
  auto const out = folder / "tuned.toml";
  auto r = gpufs_tune("--mapping --size 64K --rounds 3 --rolling-size 4 --out " + out);
  INFO(r.text);
  CHECK(r.status == 0);
  CHECK(contains(r.text, "\ncoherence_block\n"));
  CHECK_FALSE(contains(r.text, "\nrolling_size\n"));
  mapping_config c;
  load_file(c, out);
  CHECK(c.rolling_size == 4);
}

TEST_CASE("gpufs tune --mapping: a file keeps its other keys, and comments do not pile up") {
  scratch_folder folder;
  auto const out = folder / "tuned.toml";
  std::string const given = "--mapping --size 64K --rounds 3 --rolling-size 8 --fill-threads 3 ";
  std::ofstream(out) << "page_size = \"8K\"  # mine\n\"rolling_size\" = 7\n";
  auto r = gpufs_tune(given + "--coherence-block 4K --out " + out);
  CHECK(r.status == 2);
  CHECK(contains(r.text, "--out=" + out + ": exists already"));
  for (auto const* block : {"4K", "16K"}) {
    r = gpufs_tune(given + "--coherence-block " + block + " --force --out " + out);
    INFO(r.text);
    CHECK(r.status == 0);
    CHECK(contains(r.text, "all settings are given"));
    auto const text = text_of(out);
    CHECK(text.starts_with("page_size = \"8K\"  # mine\n# gpufs tune --mapping: "));
    CHECK(lines_with(text, "#") == 3);
    CHECK(lines_with(text, "rolling_size") == 1);
    mapping_config c;
    load_file(c, out);
    CHECK(c.coherence_block == parse_size(block, "a block"));
    CHECK(c.rolling_size == 8);
    CHECK(c.fill_threads == 3);
  }
  r = gpufs_tune(given + "--coherence-block 16K --out " + (folder / "other.toml"),
                 "GPUFS_CONFIG=" + out + " ");
  CHECK(contains(r.text, "other.toml not written: gpufs has the best settings"));
}

TEST_CASE("gpufs tune --mapping: what cannot be is said in one line that names it") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 100'000);
  struct {
    std::string arguments, message;
  } const rows[] = {
      {path, "file: is of gpufs tune FILE, not of gpufs tune --mapping"},
      {"--cold", "--cold: is of gpufs tune FILE"},
      {"--page-size 4K", "--page-size: is of gpufs tune FILE"},
      {"--rounds 2", "--rounds=2: must be from 3 to 1000"},
      {"--size 1K", "--size=1K: must be from 64K to 64G"},
      {"--size much", "--size=much: must be"},
      {"--protocol lazy", "protocol=lazy: has neither blocks nor a rolling size to sweep"},
      {"--rolling-size 1", "rolling_size=1: two vectors evict each other's block"},
      {"--coherence-block 3K", "--coherence-block=3K: must be auto or a power of two"},
      {"--out " + (folder / "no/out.toml"), "there is no folder " + (folder / "no")},
  };
  for (auto const& row : rows) {
    CAPTURE(row.arguments);
    auto const r = gpufs_tune("--mapping " + row.arguments);
    CAPTURE(r.text);
    CHECK(r.status == 2);
    CHECK(contains(r.text, row.message));
  }
  auto const memory = std::uint64_t(::sysconf(_SC_PHYS_PAGES)) * std::uint64_t(::getpagesize());
  if (memory >= 6 * (64ull << 30)) return;  // there is room for the largest size
  auto const r = gpufs_tune("--mapping --size 64G --out " + (folder / "out.toml"));
  CAPTURE(r.text);
  CHECK(r.status == 2);
  CHECK(contains(r.text, "--size=64G: three vectors and the check of their sum take 384G"));
}
