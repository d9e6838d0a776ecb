// Claims about traces: a line for each request to the host, whole lines whatever ends the process,
// and a filesystem that goes on when the trace cannot.
#include <gpufs/filesystem.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <host-daemon/base/trace_file.hpp>

#include <test/support/child.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace gpufs;
using namespace gpufs::test;

config traced(std::string const& trace) {
  auto c = small_config(4096, 32);
  c.trace = trace;
  return c;
}

// The lines of a trace. Each must be whole.
std::vector<std::string> lines_of(std::string const& trace) {
  auto const text = text_of(trace);
  CHECK((text.empty() || text.back() == '\n'));
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    CHECK_MESSAGE((line.starts_with("{\"op\": \"") && line.ends_with("}")), line);
    lines.push_back(line);
  }
  return lines;
}

std::uint64_t field(std::string const& line, std::string const& key) {
  auto const at = line.find("\"" + key + "\": ");
  REQUIRE_MESSAGE(at != line.npos, line);
  return std::strtoull(line.c_str() + at + key.size() + 4, nullptr, 10);
}

std::vector<std::string> of_kind(std::vector<std::string> const& lines, std::string const& op) {
  std::vector<std::string> some;
  for (auto const& line : lines)
    if (line.starts_with("{\"op\": \"" + op + "\"")) some.push_back(line);
  return some;
}

struct request {
  std::int64_t after_ns;
  std::uint64_t duration_ns, offset;
};

// The requests of a line: its last member is a list of [begin, duration, offset].
std::vector<request> requests_of(std::string const& line) {
  std::string const key = "\"requests\": [";
  auto at = line.find(key);
  REQUIRE_MESSAGE(at != line.npos, line);
  at += key.size();
  std::vector<request> all;
  for (;;) {
    char const* text = line.c_str() + at;
    char* end = nullptr;
    REQUIRE_MESSAGE(*text == '[', line);
    auto const after = std::strtoll(text + 1, &end, 10);
    auto const duration = std::strtoull(end + 1, &end, 10);
    auto const offset = std::strtoull(end + 1, &end, 10);
    all.push_back({after, duration, offset});
    at = std::size_t(end - line.c_str());
    if (line.compare(at, 2, "],") != 0) break;
    at += 2;
  }
  CHECK_MESSAGE(line.substr(at) == "]]}", line);
  return all;
}

std::uint64_t count(std::vector<std::string> const& lines) {
  std::uint64_t all = 0;
  for (auto const& line : lines) all += requests_of(line).size();
  return all;
}

// Of all requests of the lines, which share the member.
std::uint64_t sum(std::vector<std::string> const& lines, std::string const& key) {
  std::uint64_t all = 0;
  for (auto const& line : lines) all += requests_of(line).size() * field(line, key);
  return all;
}

void read_all(filesystem& fs, std::string const& file, std::uint64_t bytes) {
  int const fd = fs.open(file, O_RDONLY);
  REQUIRE(fd >= 0);
  read_batch batch;
  for (std::uint64_t at = 0; at < bytes; at += 4096) batch.add(fd, file, std::int64_t(at), 4096);
  batch.run(fs.ref(), 2, 64);
  CHECK(batch.problems() == "");
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("trace: each open, read, write and sync is there with file, place, bytes and time") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a \"b\"\n", 64 << 10);
  auto const trace = folder / "trace";
  statistics counted;
  {
    filesystem fs(traced(trace));
    read_all(fs, file, 64 << 10);
    CHECK(fs.open(folder / "missing", O_RDONLY) == -ENOENT);
    int const fd = fs.open(folder / "new", O_RDWR | O_CREAT);
    REQUIRE(fd >= 0);
    std::vector<char> const bytes(5000, 'x');
    CHECK(fs.write(fd, bytes.data(), bytes.size(), 100) == 5000);
    CHECK(fs.sync(fd) == 0);
    CHECK(fs.close(fd) == 0);
    counted = fs.stats();
  }
  auto const lines = lines_of(trace);
  auto const reads = of_kind(lines, "read"), writes = of_kind(lines, "write");
  auto const opens = of_kind(lines, "open"), syncs = of_kind(lines, "sync");
  CHECK(count(reads) == counted.host_reads);
  CHECK(sum(reads, "bytes") == counted.host_bytes);
  REQUIRE(opens.size() == 3);  // names and results differ
  CHECK(field(opens[1], "errno") == ENOENT);
  REQUIRE(writes.size() == 1);
  CHECK(requests_of(writes[0]).at(0).offset == 100);
  CHECK(field(writes[0], "bytes") == 5000);
  CHECK(writes[0].find("\"path\": \"host\"") != std::string::npos);
  CHECK(syncs.size() == 1);
  CHECK(sum(syncs, "errno") == 0);
  for (auto const& line : reads) {
    CHECK(line.find("a \\\"b\\\"\\u000a\"") != std::string::npos);
    CHECK((line.find("\"path\": \"pull\"") != std::string::npos ||
           line.find("\"path\": \"direct\"") != std::string::npos));
    CHECK(field(line, "thread") != 0);
    CHECK(field(line, "time_ns") != 0);
  }
  CHECK(lines.front().starts_with("{\"op\": \"begin\""));
  CHECK(lines.back().starts_with("{\"op\": \"end\""));
  CHECK(field(lines.back(), "lines") == lines.size() - 1);
  CHECK(field(lines.back(), "dropped") == 0);
  // The times are counted without a trace, too.
  CHECK(counted.times[std::size_t(host_request::read)].requests() == count(reads));
  CHECK(counted.times[std::size_t(host_request::open)].requests() == 3);
  CHECK(counted.times[std::size_t(host_request::write)].requests() == 1);
  CHECK(counted.times[std::size_t(host_request::sync)].requests() == 1);
}

TEST_CASE("trace: reads of the host are there, and syncs of files that nobody writes") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", 3 << 20);
  auto const trace = folder / "trace";
  {
    filesystem fs(traced(trace));
    int const fd = fs.open(file, O_RDONLY);
    REQUIRE(fd >= 0);
    std::vector<char> bytes(3 << 20);
    CHECK(fs.read(fd, bytes.data(), bytes.size(), 0) == std::int64_t(bytes.size()));
    CHECK(fs.read(fd, bytes.data(), 1000, 4096) == 1000);
    CHECK(fs.sync(fd) == 0);
    auto const counted = fs.stats().times;
    CHECK(counted[std::size_t(host_request::read)].requests() >= 4);  // parts have at most 1 MiB
    CHECK(counted[std::size_t(host_request::sync)].requests() == 1);
    CHECK(fs.close(fd) == 0);
  }
  auto const lines = lines_of(trace);
  auto const reads = of_kind(lines, "read");
  CHECK(count(reads) >= 4);
  CHECK(sum(reads, "bytes") == (3 << 20) + 1000);
  for (auto const& line : reads) CHECK(line.find(file) != line.npos);
  CHECK(count(of_kind(lines, "sync")) == 1);
}

TEST_CASE("trace: requests that differ in time and place only share lines, and lose nothing") {
  scratch_folder const folder;
  constexpr std::uint64_t pages = 1000;
  auto const file = make_file(folder, "a", pages * 4096);
  auto const trace = folder / "trace";
  {
    auto c = traced(trace);
    c.prefetch_size = 0;
    c.host_threads = 1;
    filesystem fs(c);
    read_all(fs, file, pages * 4096);
  }
  auto const reads = of_kind(lines_of(trace), "read");
  CHECK(reads.size() < pages / 10);
  std::vector<unsigned> times(pages);
  for (auto const& line : reads) {
    CHECK(field(line, "bytes") == 4096);
    auto const requests = requests_of(line);
    CHECK(requests.size() <= 256);
    CHECK(requests.front().after_ns == 0);
    for (auto const& r : requests) {
      CHECK(r.after_ns < 600'000'000'000);
      CHECK(r.duration_ns < 600'000'000'000);
      ++times.at(r.offset / 4096);
    }
  }
  CHECK(std::ranges::all_of(times, [](unsigned n) { return n >= 1; }));
}

TEST_CASE("trace: a read that fails has its errno") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", 8192);
  auto const trace = folder / "trace";
  {
    testing::filesystem fs(traced(trace), read_faults([](std::uint64_t, std::uint64_t) {
                             return testing::fault_action::fail(EIO);
                           }));
    int const fd = fs.open(file, O_RDONLY);
    REQUIRE(fd >= 0);
    read_batch batch;
    batch.add_failing(fd, 0, 4096, -EIO);
    batch.run(fs.ref(), 1, 32);
    CHECK(batch.problems() == "");
  }
  auto const reads = of_kind(lines_of(trace), "read");
  REQUIRE(!reads.empty());
  CHECK(field(reads[0], "errno") == EIO);
  CHECK(field(reads[0], "bytes") == 0);
}

TEST_CASE("trace: a file that cannot be made costs a note, and nothing else") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", 8192);
  std::string const names[] = {folder / "no folder/trace", folder.path(),
                               folder / std::string(300, 'n')};
  for (auto const& name : names) {
    filesystem fs(traced(name));
    auto const notes = fs.notes();
    CHECK(std::ranges::any_of(notes, [&](std::string const& note) {
      return note.find("no trace: trace=" + name) != std::string::npos;
    }));
    read_all(fs, file, 8192);
  }
  auto const fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  filesystem fs(traced(fifo));  // does not wait for a reader
  read_all(fs, file, 8192);
}

void write_text(std::string const& file, std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  write_bytes(file, bytes);
}

TEST_CASE("trace: a file that has other bytes is left alone, also one that is read") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", 8192), other = folder / "other";
  auto const before = pread_bytes(file, 0, 8192);
  write_text(other, "precious\n");
  for (auto const& name : {file, other, other}) {
    filesystem fs(traced(name));
    auto const notes = fs.notes();
    auto const said = [&](std::string const& note) {
      return note.find("no trace: trace=" + name + ": has bytes that are no trace") != note.npos;
    };
    CHECK(std::ranges::any_of(notes, said));
    read_all(fs, file, 8192);
  }
  CHECK(pread_bytes(file, 0, 8193) == before);
  CHECK(text_of(other) == "precious\n");
}

TEST_CASE("trace: a file that may be written and not read is left alone, and why is told") {
  scratch_folder const folder;
  auto const name = folder / "secret";
  write_text(name, "precious\n");
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(name.c_str(), 0222) == 0);
  auto const user = ::geteuid();
  if (user == 0) REQUIRE(::seteuid(65534) == 0);  // may read any file
  std::vector<std::string> notes;
  {
    filesystem fs(traced(name));
    notes = fs.notes();
  }
  if (user == 0) REQUIRE(::seteuid(0) == 0);
  CHECK(std::ranges::any_of(notes, [&](std::string const& note) {
    return note.find("trace=" + name +
                     ": has bytes, and cannot be read: " + std::strerror(EACCES)) != note.npos;
  }));
  REQUIRE(::chmod(name.c_str(), 0600) == 0);
  CHECK(text_of(name) == "precious\n");
}

TEST_CASE("trace: the filesystems of a process share it, the next process begins it anew") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", 8192);
  auto const trace = folder / "trace";
  write_text(trace, "{\"op\": \"begin\", \"time_ns\": 1, an older one, without its end");
  for (int i = 0; i < 2; ++i) {
    filesystem first(traced(trace)), second(traced(trace));
    read_all(first, file, 8192);
    read_all(second, file, 8192);
  }
  auto const lines = lines_of(trace);
  CHECK(of_kind(lines, "begin").size() == 2);
  CHECK(of_kind(lines, "end").size() == 2);
  CHECK(count(of_kind(lines, "open")) == 4);
  CHECK(sum(of_kind(lines, "read"), "bytes") == 4 * 8192);
  child next("trace once", folder.path());
  CHECK(next.succeeds());
  CHECK(count(of_kind(lines_of(trace), "open")) == 1);
}

TEST_CASE("child: trace once") {
  if (!is_part("trace once")) return;
  filesystem fs(traced(given_path() + "/trace"));
  read_all(fs, given_path() + "/a", 8192);
}

TEST_CASE("trace: another process adds to a trace that is in use; %p gives each its own") {
  scratch_folder const folder;
  auto const file = make_file(folder, "a", 8192);
  auto const trace = folder / "trace";
  {
    filesystem fs(traced(trace));
    child other("trace once", folder.path());
    CHECK(other.succeeds());
    read_all(fs, file, 8192);
  }
  auto const lines = lines_of(trace);
  CHECK(of_kind(lines, "begin").size() == 2);
  CHECK(count(of_kind(lines, "open")) == 2);
  { filesystem const fs(traced(folder / "of-%p.json")); }
  CHECK(lines_of(folder / ("of-" + std::to_string(::getpid()) + ".json")).size() == 2);
}

TEST_CASE("trace: exit() without the end of the filesystem writes all lines, once") {
  scratch_folder const folder;
  make_file(folder, "a", 64 << 10);
  child next("exit with a filesystem", folder.path());
  CHECK(next.succeeds());
  auto const lines = lines_of(folder / "trace");
  CHECK(of_kind(lines, "open").size() == 1);
  CHECK(sum(of_kind(lines, "read"), "bytes") == 64 << 10);
  REQUIRE(lines.back().starts_with("{\"op\": \"end\""));
  CHECK(field(lines.back(), "lines") == lines.size() - 1);
}

TEST_CASE("child: exit with a filesystem") {
  if (!is_part("exit with a filesystem")) return;
  auto* const fs = new filesystem(traced(given_path() + "/trace"));
  read_all(*fs, given_path() + "/a", 64 << 10);
  std::exit(0);
}

TEST_CASE("trace: a child of fork() adds no line, however it ends") {
  scratch_folder const folder;
  make_file(folder, "a", 64 << 10);
  child next("fork", folder.path());
  CHECK(next.succeeds());
  auto const lines = lines_of(folder / "trace");
  CHECK(of_kind(lines, "begin").size() == 1);
  CHECK(of_kind(lines, "end").size() == 1);
  CHECK(count(of_kind(lines, "open")) == 2);
  CHECK(sum(of_kind(lines, "read"), "bytes") == 64 << 10);
  CHECK(field(lines.back(), "lines") == lines.size() - 1);
}

TEST_CASE("child: fork") {
  if (!is_part("fork")) return;
  {
    auto fs = std::make_unique<filesystem>(traced(given_path() + "/trace"));
    read_all(*fs, given_path() + "/a", 32 << 10);
    for (int const end : {0, 1, 2}) {
      pid_t const pid = ::fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        if (end == 0) ::_exit(0);
        if (end == 1) std::exit(0);
        fs.reset();
        std::exit(0);
      }
      int status = 0;
      CHECK(::waitpid(pid, &status, 0) == pid);
      CHECK(status == 0);
    }
    int const fd = fs->open(given_path() + "/a", O_RDONLY);
    REQUIRE(fd >= 0);
    read_batch batch;
    for (std::uint64_t at = 32 << 10; at < 64 << 10; at += 4096)
      batch.add(fd, given_path() + "/a", std::int64_t(at), 4096);
    batch.run(fs->ref(), 2, 64);
    CHECK(batch.problems() == "");
  }
}

TEST_CASE("trace: a full disk costs lines, which are counted; the others are whole") {
  scratch_folder const folder;
  make_file(folder, "a", 8192);
  for (auto const* const part : {"full disk", "size limit"}) {
    auto const output = folder / "output";
    child next(part, folder.path(), {.output_to = output});
    CHECK(next.succeeds());
    auto const said = text_of(output);
    CHECK_MESSAGE(said.find("lines were dropped in all") != said.npos, said);
  }
  // Of the size limit: what is there is whole.
  CHECK(lines_of(folder / "trace").size() > 10);
}

// Opens that fail are requests, too. Their names differ, so each has a line.
void make_requests(filesystem& fs, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    CHECK(fs.open(given_path() + "/missing" + std::to_string(i), O_RDONLY) == -ENOENT);
}

TEST_CASE("child: full disk") {
  if (!is_part("full disk")) return;
  filesystem fs(traced("/dev/full"));
  make_requests(fs, 2000);
  read_all(fs, given_path() + "/a", 8192);
}

TEST_CASE("child: size limit") {
  if (!is_part("size limit")) return;
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  ::rlimit const limit{10'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  {
    filesystem fs(traced(given_path() + "/trace"));
    make_requests(fs, 2000);
    read_all(fs, given_path() + "/a", 8192);
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);  // a build for coverage writes at the end
}

TEST_CASE("trace: a disk that becomes full within a line is named as the cause") {
  scratch_folder const folder;
  auto const output = folder / "output";
  child next("full within a line", folder.path(), {.output_to = output});
  CHECK(next.succeeds());
  auto const said = text_of(output);
  std::string const cause = std::strerror(EFBIG);
  CHECK_MESSAGE(said.find("lines are being dropped: " + cause) != said.npos, said);
  CHECK_MESSAGE(said.find("dropped in all: " + cause) != said.npos, said);
}

TEST_CASE("child: full within a line") {
  if (!is_part("full within a line")) return;
  auto const name = given_path() + "/trace";
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  std::string why;
  auto file = daemon::trace_file::open(name, why);
  REQUIRE(file != nullptr);
  file->write(std::string(20'000, 'x') + "\n", 1);  // the limit is the log's, too
  ::rlimit const limit{std::filesystem::file_size(name) + 10, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  file->write("a line that is longer than that\n", 1);
  CHECK(file->dropped() == 0);  // its rest may find room
  file->write("another line\n", 1);
  CHECK(file->dropped() == 1);
  file.reset();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);  // a build for coverage writes at the end
}

TEST_CASE("trace: when there is room again, whole lines follow") {
  scratch_folder const folder;
  child_options options;
  options.tmpfs_bytes = 256 << 10;
  child next("room again", folder.path(), options);
  if (!next.refused().empty()) {
    MESSAGE("not run: " << next.refused());
    return;
  }
  CHECK(next.succeeds());
}

TEST_CASE("child: room again") {
  if (!is_part("room again")) return;
  auto const ballast = given_path() + "/ballast", trace = given_path() + "/trace";
  {
    filesystem fs(traced(trace));
    write_range(ballast, 1, 0, 200 << 10);
    make_requests(fs, 1000);  // more than the disk holds
    REQUIRE(::unlink(ballast.c_str()) == 0);
    make_requests(fs, 1);
  }
  auto const lines = lines_of(trace);
  REQUIRE(!lines.empty());
  CHECK(lines.back().starts_with("{\"op\": \"end\""));
  CHECK(field(lines.back(), "dropped") > 0);
  CHECK(field(lines.back(), "lines") == lines.size() - 1);
  CHECK(of_kind(lines, "open").size() + field(lines.back(), "dropped") == 1001);
}

TEST_CASE("trace: threads that make requests at the same time lose no line") {
  scratch_folder const folder;
  auto const trace = folder / "trace";
  constexpr unsigned callers = 8, each = 500;
  {
    filesystem fs(traced(trace));
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < callers; ++t)
      threads.emplace_back([&] {
        for (unsigned i = 0; i < each; ++i)
          static_cast<void>(fs.open(folder / "missing", O_RDONLY));
      });
    for (auto& t : threads) t.join();
  }
  auto const lines = lines_of(trace);
  CHECK(count(of_kind(lines, "open")) == callers * each);
  CHECK(field(lines.back(), "lines") == lines.size() - 1);
}

}  // namespace
