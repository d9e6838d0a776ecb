// Claims about the settings of shared memory as text: one file with those of a filesystem, the same
// layers, the same errors.
#include <gpufs/cli.hpp>
#include <gpufs/mapping_cli.hpp>
#include <gpufs/mapping_settings.hpp>

#include <test/owner/setting_sources.hpp>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::test;

/// A program with the settings of both kinds.
struct program {
  explicit program(std::vector<std::string> const& arguments) {
    std::vector<char const*> argv{"program"};
    for (auto const& argument : arguments) argv.push_back(argument.c_str());
    app.parse(int(argv.size()), argv.data());
  }
  CLI::App app;
  cli_settings const settings{app};
  cli_mapping_settings const mapping_settings{app};
};

std::string refused(std::string const& text) {
  toml_file const file(text);
  return error_of([] { static_cast<void>(load_mapping_config()); });
}

}  // namespace

TEST_CASE("mapping settings: each one prints what it reads, and its default is allowed") {
  mapping_config const defaults;
  CHECK_NOTHROW(validate(defaults));
  for (auto const& s : mapping_settings()) {
    CAPTURE(s.key);
    mapping_config c;
    s.assign(c, s.print(defaults), s.key);
    CHECK(s.print(c) == s.print(defaults));
    CHECK(!s.help.empty());
  }
}

TEST_CASE("mapping settings: no key, variable or flag is also one of a filesystem") {
  std::set<std::string_view> keys;
  for (auto const& s : settings()) {
    keys.insert(s.key);
    if (!s.former_key.empty()) keys.insert(s.former_key);
  }
  for (auto const& s : mapping_settings()) CHECK_MESSAGE(keys.insert(s.key).second, s.key);
}

TEST_CASE("mapping settings: every member is reached from a file") {
  toml_file const file(
      "address_space = \"64G\"\ncoherence_block = 4096\nprotocol = \"lazy\"\n"
      "rolling_size = 7\nrolling_per_object = 3\nrolling_patience = 5\npinned_memory = 0\n"
      "device_memory = \"2G\"\nhost_memory = \"3G\"\nspill_dir = \"/tmp\"\n"
      "chunk_size = \"2M\"\nfill_threads = 2\ndetect_writes = \"all\"\n"
      "fault_handler = \"userfault\"\nbacking = \"managed\"\n"
      "mapping_profile = \"some\"\nguard_read_only = \"on\"\npage_size = 8192\n");
  auto const c = load_mapping_config();
  CHECK(c.address_space == 64ull << 30);
  CHECK(c.coherence_block == 4096);
  CHECK(c.protocol == coherence_protocol::lazy);
  CHECK(c.rolling_size == 7);
  CHECK(c.rolling_per_object == 3);
  CHECK(c.rolling_patience == 5);
  CHECK(c.pinned_memory == 0);
  CHECK(c.device_memory == 2ull << 30);
  CHECK(c.host_memory == 3ull << 30);
  CHECK(c.spill_dir == "/tmp");
  CHECK(c.chunk_size == 2 << 20);
  CHECK(c.fill_threads == 2);
  CHECK(c.detect_writes == write_detection::all);
  CHECK(c.fault_handler == fault_handling::userfault);
  CHECK(c.backing == memory_backing::managed);
  CHECK(c.mapping_profile == "some");
  CHECK(c.guard_read_only);
  CHECK_NOTHROW(validate(c));
  // A member that has no setting would keep its default in a new file.
  CHECK(mapping_settings().size() == 17);
  CHECK(load_config().page_size == 8192);
}

TEST_CASE("mapping settings: auto is the value that says so") {
  mapping_config changed;
  changed.coherence_block = 8192;
  changed.rolling_size = 2;
  changed.host_memory = changed.pinned_memory = 0;
  changed.chunk_size = 4 << 20;
  toml_file const file(
      "coherence_block = \"auto\"\nrolling_size = \"auto\"\nhost_memory = \"auto\"\n"
      "pinned_memory = \"auto\"\nchunk_size = \"auto\"\n");
  auto const c = load_mapping_config(changed);
  CHECK(c.coherence_block == block_automatic);
  CHECK(c.rolling_size == rolling_automatic);
  CHECK(c.host_memory == host_memory_automatic);
  CHECK(c.pinned_memory == pinned_automatic);
  CHECK(c.chunk_size == chunk_automatic);
}

TEST_CASE("mapping settings: file, environment and command line, the later one wins") {
  toml_file const file(
      "rolling_size = 2\nfill_threads = 3\nhost_threads = 4\nprotocol = \"lazy\"\n");
  variable const threads("GPUFS_FILL_THREADS", "5"), rolling("GPUFS_ROLLING_SIZE", "6");
  program const p({"--rolling-size", "7", "--page-size=8K", "--chunk", "2M"});
  auto const c = p.mapping_settings.load();
  CHECK(c.protocol == coherence_protocol::lazy);
  CHECK(c.fill_threads == 5);
  CHECK(c.rolling_size == 7);
  CHECK(c.chunk_size == 2 << 20);
  auto const of_filesystem = p.settings.load();
  CHECK(of_filesystem.page_size == 8192);
  CHECK(of_filesystem.host_threads == 4);
}

TEST_CASE("mapping settings: --config is of both kinds") {
  toml_file const file("fill_threads = 3\nhost_threads = 4\n");
  std::filesystem::rename("gpufs.toml", "other.toml");
  program const p({"--config", "other.toml"});
  CHECK(p.mapping_settings.load().fill_threads == 3);
  CHECK(p.settings.load().host_threads == 4);
  program const bad({"--config", "missing.toml"});
  CHECK(error_of([&] { static_cast<void>(bad.mapping_settings.load()); }) ==
        "--config=missing.toml: must be the path of a TOML file");
}

TEST_CASE("mapping settings: errors name where the value stands, and what is allowed") {
  CHECK(refused("protocol = \"eager\"\n") ==
        "gpufs.toml:1: protocol=eager: must be one of rolling lazy batch");
  CHECK(refused("\ncoherence_block = 3000\n") ==
        "gpufs.toml:2: coherence_block=3000: must be auto or a power of two from 4K to 32M");
  CHECK(refused("rolling_size = 2147483648\n") ==
        "gpufs.toml:1: rolling_size=2147483648: must be auto or a number from 1 to 1073741824");
  // Those of a filesystem are checked where they stand, too.
  CHECK(refused("page_size = 3000\n") ==
        "gpufs.toml:1: page_size=3000: must be a power of two from 512 to 4194304");
  auto const unknown = refused("rolling_sise = 2\n");
  CHECK(unknown.starts_with("gpufs.toml:1: rolling_sise: no such setting; there are page_size,"));
  CHECK(unknown.ends_with(", chunk_size, fill_threads"));
  variable const wrong("GPUFS_FILL_THREADS", "0");
  CHECK(error_of([] { static_cast<void>(load_mapping_config()); }) ==
        "GPUFS_FILL_THREADS=0: must be a number from 1 to 256");
}

TEST_CASE("mapping settings: a file that is wrong for shared memory is wrong for a filesystem") {
  toml_file const file("fill_threads = 0\n");
  CHECK(error_of([] { static_cast<void>(load_config()); }) ==
        "gpufs.toml:1: fill_threads=0: must be a number from 1 to 256");
}
