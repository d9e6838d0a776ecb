// Claims about settings: sizes, layers, and what an error says.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>
#include <gpufs/owner/settings_text.hpp>
#include <gpufs/statistics.hpp>

#include <test/owner/setting_sources.hpp>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace gpufs::test;
using gpufs::config;

config from_command_line(std::vector<std::string> const& arguments) {
  CLI::App app;
  gpufs::cli_settings settings(app);
  std::vector<char const*> argv{"program"};
  for (auto const& argument : arguments) argv.push_back(argument.c_str());
  app.parse(int(argv.size()), argv.data());
  return settings.load();
}

TEST_CASE("log is one of five levels, trace is any text; both from all layers") {
  config c;
  CHECK(c.log == gpufs::log_level::warn);
  CHECK(c.trace.empty());
  toml_file const file("log = \"info\"\ntrace = \"a b/%p.json\"\n");
  c = gpufs::load_config();
  CHECK(c.log == gpufs::log_level::info);
  CHECK(c.trace == "a b/%p.json");
  variable const log("GPUFS_LOG", "off"), trace("GPUFS_TRACE", "5");
  c = gpufs::load_config();
  CHECK(c.log == gpufs::log_level::off);
  CHECK(c.trace == "5");
  CHECK(from_command_line({"--trace", "\xc3\xbc", "--log=debug"}).trace == "\xc3\xbc");
  CHECK(error_of([] { from_command_line({"--log=loud"}); }) ==
        "--log=loud: must be one of off error warn info debug");
  CHECK_NOTHROW(gpufs::validate(c));
}

TEST_CASE("a file of settings has letters beyond ASCII in comments only") {
  toml_file const file("# \xc3\xbc?\ntrace = \"\xc3\xbc\"\n");
  CHECK(error_of([] { static_cast<void>(gpufs::load_config()); }) ==
        "gpufs.toml:2: trace: must be ASCII in a file of settings");
}

TEST_CASE("parse_size: suffixes are powers of 1024, in either case, with B or iB or without") {
  CHECK(gpufs::parse_size("0", "x") == 0);
  CHECK(gpufs::parse_size("4096", "x") == 4096);
  CHECK(gpufs::parse_size("512B", "x") == 512);
  CHECK(gpufs::parse_size("64K", "x") == 65536);
  CHECK(gpufs::parse_size("64kib", "x") == 65536);
  CHECK(gpufs::parse_size("2MB", "x") == 2097152);
  CHECK(gpufs::parse_size("1G", "x") == 1073741824);
  CHECK(gpufs::parse_size("3T", "x") == 3ull << 40);
  CHECK(gpufs::parse_size("18446744073709551615", "x") == ~0ull);
}

TEST_CASE("parse_size: anything else is refused, naming origin and text") {
  for (std::string const bad :
       {"", "K", "1.5K", "-1", "+1", " 1", "1 K", "1 ", "64KK", "64iB", "64X", "0x10",
        "18446744073709551616", "16777216T", "17179869184G"}) {
    CAPTURE(bad);
    CHECK(error_of([&] {
            (void)gpufs::parse_size(bad, "--size");
          }).starts_with("--size=" + bad + ": must be a size"));
  }
}

TEST_CASE("format_size: parse_size reads back what it printed") {
  CHECK(gpufs::format_size(65536) == "64K");
  CHECK(gpufs::format_size(3000) == "3000");
  CHECK(gpufs::format_size(0) == "0");
  CHECK(gpufs::format_size(3 << 20) == "3M");
  for (std::uint64_t const n : {0ull, 1ull, 1023ull, 1024ull, 1025ull, 1ull << 20, 5ull << 30,
                                7ull << 40, 1ull << 63, ~0ull}) {
    CHECK(gpufs::parse_size(gpufs::format_size(n), "x") == n);
  }
}

TEST_CASE("settings: each one prints what it reads, and its names follow from the key") {
  config defaults;
  for (auto const& s : gpufs::settings()) {
    CAPTURE(s.key);
    config c;
    s.assign(c, s.print(defaults), s.key);
    CHECK(s.print(c) == s.print(defaults));
    CHECK(!s.help.empty());
  }
  CHECK(gpufs::settings()[0].environment_name() == "GPUFS_PAGE_SIZE");
  CHECK(gpufs::settings()[0].flag() == "--page-size");
}

TEST_CASE("environment: a bad value names the variable, the value, and what is allowed") {
  config c;
  auto const error = [&](std::string const& name, std::string const& value) {
    variable const set(name, value);
    return error_of([&] { gpufs::load_environment(c); });
  };
  CHECK(error("GPUFS_PAGE_SIZE", "3000") ==
        "GPUFS_PAGE_SIZE=3000: must be a power of two from 512 to 4194304");
  CHECK(error("GPUFS_PAGE_SIZE", "256") ==
        "GPUFS_PAGE_SIZE=256: must be a power of two from 512 to 4194304");
  CHECK(error("GPUFS_PAGE_SIZE", "8M") ==
        "GPUFS_PAGE_SIZE=8M: must be a power of two from 512 to 4194304");
  CHECK(error("GPUFS_PAGE_SIZE", "") ==
        "GPUFS_PAGE_SIZE=: must be a power of two from 512 to 4194304");
  CHECK(error("GPUFS_CACHE_SIZE", "1.5K") ==
        "GPUFS_CACHE_SIZE=1.5K: must be a size from 4K to 16T");
  CHECK(error("GPUFS_PREFETCH_SIZE", "1G") ==
        "GPUFS_PREFETCH_SIZE=1G: must be auto, 0 or a size up to 512M");
  CHECK(error("GPUFS_PREFETCH_DEPTH", "17") ==
        "GPUFS_PREFETCH_DEPTH=17: must be a number from 0 to 16");
  CHECK(error("GPUFS_PREFETCH_MEMORY", "4K") ==
        "GPUFS_PREFETCH_MEMORY=4K: must be a multiple of 4096 from 64K to 1T");
  CHECK(error("GPUFS_HOST_THREADS", "257") ==
        "GPUFS_HOST_THREADS=257: must be a number from 1 to 256, or 0 for one per core less two");
  CHECK(error("GPUFS_IO_BACKEND", "aio") ==
        "GPUFS_IO_BACKEND=aio: must be one of auto uring pread");
  CHECK(error("GPUFS_IO_PATH", "tape") ==
        "GPUFS_IO_PATH=tape: must be one of auto pull dma direct registered");
  CHECK(error("GPUFS_REPLACEMENT", "lru") ==
        "GPUFS_REPLACEMENT=lru: must be one of lra fifo clock");
  CHECK(error("GPUFS_RPC_TIMEOUT", "0") ==
        "GPUFS_RPC_TIMEOUT=0: must be a time from 1 to 3600000 milliseconds, such as 500, 500ms or "
        "10s");
  for (std::string const text : {"ms", "10m", "10 s", "18446744073709551s", "3601s"})
    CHECK(error("GPUFS_RPC_TIMEOUT", text) ==
          "GPUFS_RPC_TIMEOUT=" + text +
              ": must be a time from 1 to 3600000 milliseconds, such as 500, 500ms or 10s");
  CHECK(error("GPUFS_STAGING_SIZE", "65537") ==
        "GPUFS_STAGING_SIZE=65537: must be a multiple of 4096 from 64K to 1T");
  CHECK(error("GPUFS_MAX_OPEN_FILES", "65537") ==
        "GPUFS_MAX_OPEN_FILES=65537: must be a number from 1 to 65536");
  CHECK(error("GPUFS_SEATS", "-1") == "GPUFS_SEATS=-1: must be a number from 1 to 65536");
}

TEST_CASE("former names of settings and values still work; today's name wins") {
  config c;
  {
    variable const then("GPUFS_CONTEXT_SLOTS", "77");
    gpufs::load_environment(c);
    CHECK(c.seats == 77);
    variable const now("GPUFS_SEATS", "78");
    gpufs::load_environment(c);
    CHECK(c.seats == 78);
    variable const bad("GPUFS_MAPPED_MEMORY", "x");
    CHECK(error_of([&] { gpufs::load_environment(c); }).starts_with("GPUFS_MAPPED_MEMORY=x: "));
  }
  toml_file const file("window_size = \"1M\"\nmapped_memory = \"2M\"\nio_path = \"mapped\"\n");
  c = gpufs::load_config();
  CHECK(c.file_window_size == 1u << 20);
  CHECK(c.registered_memory == 2u << 20);
  CHECK(c.path == gpufs::io_path::registered);
  {
    std::ofstream("gpufs.toml") << "window_size = \"1M\"\nfile_window_size = \"4M\"\n";
    CHECK(gpufs::load_config().file_window_size == 4u << 20);
  }
  CHECK(from_command_line({"--context-slots", "5"}).seats == 5);
  CHECK(from_command_line({"--io-path", "mapped"}).path == gpufs::io_path::registered);
}

TEST_CASE("rpc_timeout: milliseconds, or a suffix ms or s") {
  config c;
  auto const timeout = [&](std::string const& text) {
    variable const set("GPUFS_RPC_TIMEOUT", text);
    gpufs::load_environment(c);
    return c.rpc_timeout_ms;
  };
  CHECK(timeout("250") == 250);
  CHECK(timeout("500ms") == 500);
  CHECK(timeout("10s") == 10000);
}

TEST_CASE("file: integers and strings with suffixes") {
  toml_file const file(
      "page_size = 4096\ncache_size = \"64M\"\nio_backend = \"pread\"\nrpc_timeout = \"2s\"\n");
  config const c = gpufs::load_config();
  CHECK(c.page_size == 4096);
  CHECK(c.cache_size == 64u << 20);
  CHECK(c.backend == gpufs::io_backend::pread);
  CHECK(c.rpc_timeout_ms == 2000);
}

TEST_CASE("file: errors name file, line and key") {
  auto const error = [](std::string const& text) {
    toml_file const file(text);
    return error_of([] { (void)gpufs::load_config(); });
  };
  CHECK(error("\npage_size = 3000\n") ==
        "gpufs.toml:2: page_size=3000: must be a power of two from 512 to 4194304");
  CHECK(
      error("host_threads = -1\n").starts_with("gpufs.toml:1: host_threads=-1: must be a number"));
  CHECK(error("cache_size = 1.5\n") ==
        "gpufs.toml:1: cache_size: must be an integer or a string such as \"64K\"");
  CHECK(error("cache_size = true\n").starts_with("gpufs.toml:1: cache_size=true: must be a"));
  CHECK(error("views = true\n") == "gpufs.toml:1: views=true: must be one of on off");
  CHECK(error("trace = false\n") ==
        "gpufs.toml:1: trace: must be an integer or a string such as \"64K\"");
  CHECK(error("\n\npage_sise = 4096\n")
            .starts_with(
                "gpufs.toml:3: page_sise: no such setting; there are page_size, cache_size,"));
  CHECK(error("[cache]\nsize = 1\n").starts_with("gpufs.toml:1: cache: no such setting"));
  for (auto const* const header : {"[^cache]\n", "[[[cache]]]\n", "[=", "[[\n"})
    CHECK(error(header).starts_with("gpufs.toml:1: "));
  CHECK(error("page_size = 4096\npage_size = \n").starts_with("gpufs.toml:2: "));
}

TEST_CASE("C settings: # begins a comment outside the quotes of a value") {
  config c;
  gpufs::owner::load_text(c, "# trace = none\ntrace = \"/a #1/b = c\" # \"x\"\npage_size=4K#8K\n");
  CHECK(c.trace == "/a #1/b = c");
  CHECK(c.page_size == 4096);
  gpufs::owner::load_text(c, "trace = a\"b # c\"");
  CHECK(c.trace == "a\"b");
  gpufs::owner::load_text(c, "trace = \"a # b");
  CHECK(c.trace == "\"a");
}

TEST_CASE("file: characters beyond ASCII are for comments") {
  {
    toml_file const file("# größe\npage_size = 4096  # 4 КиБ, \xff\n");
    CHECK(gpufs::load_config().page_size == 4096);
  }
  {
    toml_file const file("# größe\ntrace = \"/tmp/a?b!\"\n");
    CHECK(gpufs::load_config().trace == "/tmp/a?b!");
  }
  // Characters of the ranges that toml++ 3.3 does not expect behind a value, and bytes that are no
  // UTF-8.
  for (auto const* const text :
       {"page_size = 4096\xcc\xae\n", "page_size = 4096\xe2\xb1\xa0\n",
        "page_size = 4096\xef\xbb\xbe\n", "\xc3\xa4 = 4096\n", "page_size = 4096 \xff\n"}) {
    toml_file const file(text);
    auto const error = error_of([] { (void)gpufs::load_config(); });
    CHECK(error.starts_with("gpufs.toml:1: "));
    CHECK(error.ends_with(" (letters beyond ASCII are shown as ?)"));
  }
  {
    toml_file const file("\xef\xbb\xbfpage_size = 8192  # with the mark of UTF-8\n");
    CHECK(gpufs::load_config().page_size == 8192);
  }
  {
    toml_file const file("\xef\xbb\xbfpage_size = \n");
    CHECK_FALSE(error_of([] { (void)gpufs::load_config(); }).ends_with("shown as ?)"));
  }
}

TEST_CASE("gpufs.toml: what is there under that name must be a file") {
  toml_file const folder("");
  std::filesystem::remove("gpufs.toml");
  for (int const kind : {0, 1, 2}) {
    std::filesystem::remove("gpufs.toml");
    if (kind == 0)
      std::filesystem::create_directory("gpufs.toml");
    else if (kind == 1)
      REQUIRE(mkfifo("gpufs.toml", 0600) == 0);  // would be waited for
    else
      REQUIRE(symlink("gpufs.toml", "gpufs.toml") == 0);
    CHECK(error_of([] { (void)gpufs::load_config(); }) ==
          "gpufs.toml: must be a file, or not there");
  }
}

TEST_CASE("gpufs.toml: a working folder that cannot be searched is no folder without it") {
  toml_file const file("page_size = 4096\n");
  pid_t const child = ::fork();
  if (child == 0) {
    // Of another user, who may search it no more.
    bool const is_there = ::mkdir("closed", 0700) == 0 && ::chdir("closed") == 0;
    constexpr uid_t nobody = 65534;
    bool const is_closed =
        is_there && (::getuid() == 0 ? ::setuid(nobody) == 0 : ::chmod(".", 0) == 0);
    auto const error = error_of([] { (void)gpufs::load_config(); });
    ::_exit(!is_closed ? 2 : error.ends_with("working folder: Permission denied") ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2)
    MESSAGE("skipped: this user cannot be shut out of a folder");
  else
    CHECK(WEXITSTATUS(status) == 0);
  std::filesystem::remove("closed");
}

TEST_CASE("GPUFS_CONFIG: names a file that must exist, and takes the place of gpufs.toml") {
  toml_file const file("page_size = 4096\n");
  {
    std::ofstream("other.toml") << "host_threads = 3\n";
    variable const set("GPUFS_CONFIG", "other.toml");
    config const c = gpufs::load_config();
    CHECK(c.host_threads == 3);
    CHECK(c.page_size == config{}.page_size);
  }
  variable const set("GPUFS_CONFIG", "absent.toml");
  CHECK(error_of([] { (void)gpufs::load_config(); }) ==
        "GPUFS_CONFIG=absent.toml: must be the path of a TOML file");
  variable const unreadable("GPUFS_CONFIG", "/proc/self/mem");
  CHECK(error_of([] { (void)gpufs::load_config(); }) ==
        "/proc/self/mem: cannot be read: Input/output error");
  REQUIRE(symlink("loop.toml", "loop.toml") == 0);
  variable const loop("GPUFS_CONFIG", "loop.toml");
  CHECK(error_of([] { (void)gpufs::load_config(); }) ==
        "GPUFS_CONFIG=loop.toml: must be the path of a TOML file");
}

TEST_CASE("layers: code, then file, then environment, then command line; a later one wins") {
  toml_file const file("cache_size = \"2G\"\nhost_threads = 2\nmax_open_files = 2\n");
  variable const threads("GPUFS_HOST_THREADS", "3");
  variable const files("GPUFS_MAX_OPEN_FILES", "3");

  config code;
  code.page_size = 1024;
  code.cache_size = 1 << 20;
  config const loaded = gpufs::load_config(code);
  CHECK(loaded.page_size == 1024);
  CHECK(loaded.cache_size == 2ull << 30);
  CHECK(loaded.host_threads == 3);

  config const c = from_command_line({"--max-open-files=4"});
  CHECK(c.cache_size == 2ull << 30);
  CHECK(c.host_threads == 3);
  CHECK(c.max_open_files == 4);
}

TEST_CASE("command line: every setting is an option, and those in -size have a short name") {
  CLI::App app;
  gpufs::cli_settings const settings(app);
  for (auto const& s : gpufs::settings()) CHECK(app.get_option_no_throw(s.flag()) != nullptr);
  toml_file const file("");
  config const c = from_command_line(
      {"--page-size", "4K", "--cache=1M", "--prefetch", "64K", "--io-backend", "uring"});
  CHECK(c.page_size == 4096);
  CHECK(c.cache_size == 1 << 20);
  CHECK(c.prefetch_size == 65536);
  CHECK(c.backend == gpufs::io_backend::uring);
}

TEST_CASE("command line: a bad value names the flag") {
  toml_file const file("");
  CHECK(error_of([] {
          (void)from_command_line({"--page-size", "3000"});
        }) == "--page-size=3000: must be a power of two from 512 to 4194304");
  CHECK(error_of([] {
          (void)from_command_line({"--config", "absent.toml"});
        }) == "--config=absent.toml: must be the path of a TOML file");
  std::string const long_name(300, 'a');
  CHECK(error_of([&] {
          (void)from_command_line({"--config", long_name.c_str()});
        }) == "--config=" + long_name + ": must be the path of a TOML file");
}

TEST_CASE(
    "--config: takes the place of gpufs.toml and GPUFS_CONFIG; the environment still wins over "
    "it") {
  toml_file const file("page_size = 4096\n");
  std::ofstream("other.toml") << "host_threads = 3\nmax_open_files = 3\n";
  variable const set("GPUFS_CONFIG", "gpufs.toml");
  variable const files("GPUFS_MAX_OPEN_FILES", "5");
  config const c = from_command_line({"--config", "other.toml"});
  CHECK(c.page_size == config{}.page_size);
  CHECK(c.host_threads == 3);
  CHECK(c.max_open_files == 5);
}

TEST_CASE("statistics: text has a line for each counter that is not 0, JSON has every counter") {
  gpufs::statistics none, some;
  some.hits = 3;
  some.misses = 1024;
  CHECK(to_text(none).empty());
  CHECK(to_text(some) == "  hits               3\n  misses             1024\n");
  auto const json = to_json_fields(some);
  CHECK(json.starts_with("\""));
  CHECK(json.find("\"hits\": 3, ") != std::string::npos);
  CHECK(json.find("\"misses\": 1024, ") != std::string::npos);
  CHECK(std::ranges::count(json, ':') == std::ranges::count(to_json_fields(none), ':'));
  CHECK(to_text(some - some).empty());
}

TEST_CASE("validate: the defaults are right") {
  CHECK(error_of([] { gpufs::validate(config{}); }).empty());
}

TEST_CASE("validate: values set in code are checked as given text is") {
  config c;
  c.page_size = 3000;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "page_size=3000: must be a power of two from 512 to 4194304");
  c = {};
  c.backend = gpufs::io_backend(7);
  CHECK(error_of([&] { gpufs::validate(c); }) == "io_backend=7: must be one of auto uring pread");
}

TEST_CASE("validate: settings that do not fit together name the remedy") {
  config c;
  c.page_size = 64 << 10;
  c.cache_size = 7 * c.page_size;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "cache_size=448K: must be at least 8 pages, 512K with page_size=64K");
  c.cache_size = 8 * c.page_size;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  auto many = c;
  many.page_size = 512;
  many.cache_size = 1ull << 44;
  CHECK(error_of([&] { gpufs::validate(many); }) ==
        "cache_size=16T: must be at most 2147483648 pages, 1T with page_size=512");
  many.cache_size = 1ull << 40;
  CHECK(error_of([&] { gpufs::validate(many); }).empty());
  c.staging_size = 8 * c.page_size;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  c.staging_size -= 4096;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "staging_size=508K: must be at least 512K, 8 times page_size=64K");
}

TEST_CASE(
    "validate: a fixed prefetch_size is whole pages, and prefetch_memory has room for several") {
  config c;
  c.page_size = 64 << 10;
  c.prefetch_size = 65536 + 4096;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "prefetch_size=68K: must be a multiple of page_size=64K");
  c.prefetch_size = 65536;
  c.prefetch_memory = 1 << 20;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  c.prefetch_memory -= 4096;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "prefetch_memory=1020K: must be at least 1M: 8 times page_size=64K plus prefetch_size=64K");
  c.prefetch_size = gpufs::prefetch_automatic;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
}

TEST_CASE("validate: buffers for reads and for writes hold a page, or there are none") {
  config c;
  c.page_size = 1 << 20;
  c.prefetch_memory = c.write_memory = c.page_size;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  c.prefetch_memory -= 4096;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "prefetch_memory=1020K: must be at least page_size=1M, or prefetch_size=0 for no "
        "readahead");
  c.prefetch_size = 0;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  c.write_memory -= 4096;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "write_memory=1020K: must be at least page_size=1M, or 0 to write no files");
  c.write_memory = 0;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
}

TEST_CASE("prefetch_size: auto is a value of its own, printed as it is read") {
  toml_file const file("prefetch_size = \"auto\"\n");
  config c;
  c.prefetch_size = 0;
  CHECK(gpufs::load_config(c).prefetch_size == gpufs::prefetch_automatic);
  CHECK(from_command_line({"--prefetch=0"}).prefetch_size == 0);
}

TEST_CASE(
    "validate: windows hold at least a page, and the memory for them at least a window; 0 is "
    "none") {
  config c;
  c.path = gpufs::io_path::registered;
  c.page_size = 1 << 20;
  c.file_window_size = 64 << 10;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "file_window_size=64K: must be at least page_size=1M");
  c.file_window_size = 32 << 20;
  c.registered_memory = 16 << 20;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "registered_memory=16M: must be 0, or at least file_window_size=32M");
  c.registered_memory = 0;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  CHECK(gpufs::files_to_register(c) == gpufs::registered_files::none);
  c.registered_memory = 32 << 20;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  CHECK(gpufs::files_to_register(c) == gpufs::registered_files::all);
  c.file_window_size = 48 << 20;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "file_window_size=48M: must be a power of two from 64K to 1G");
  c.file_window_size = 64 << 10;
  c.path = gpufs::io_path::automatic;
  CHECK(error_of([&] { gpufs::validate(c); }) ==
        "file_window_size=64K: must be at least page_size=1M");
  CHECK(gpufs::files_to_register(c) == gpufs::registered_files::noticed);
  c.path = gpufs::io_path::pull;
  CHECK(error_of([&] { gpufs::validate(c); }).empty());
  CHECK(gpufs::files_to_register(c) == gpufs::registered_files::none);
}

}  // namespace
