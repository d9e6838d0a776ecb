// `gpufs tune`, the program: what it writes, what it leaves alone, what it refuses. Runs the
// program that lies beside this suite.
#include <gpufs/config.hpp>

#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>

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

TEST_CASE("gpufs tune: it replaces no file unless told to, and never the one that it reads") {
  scratch_folder folder;
  auto const path = make_file(folder, "data", 100'000);
  auto const bytes = pread_bytes(path, 0, 100'000);
  auto const out = folder / "tuned.toml";
  std::ofstream(out) << "mine";
  auto r = gpufs_tune(path + small + "--time 1s --out " + out);
  CHECK(r.status == 2);
  CHECK(contains(r.text, "--out=" + out + ": exists already"));
  CHECK(text_of(out) == "mine");
  r = gpufs_tune(path + small +
                 "--time 1s --force --page-size 4K --prefetch-size 0 --host-threads 1 --out " +
                 out);
  INFO(r.text);
  CHECK(r.status == 0);
  CHECK(contains(text_of(out), "page_size = \"4K\""));
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
      {out, "file is required"},
  };
  for (auto const& row : rows) {
    CAPTURE(row.arguments);
    auto const r = gpufs_tune(row.arguments);
    CAPTURE(r.text);
    CHECK(r.status == 2);
    CHECK(contains(r.text, row.message));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "out.toml"));
}
