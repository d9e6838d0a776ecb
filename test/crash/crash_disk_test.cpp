// The model of a storage that loses its power, on logs that are made up.
#include <test/crash/crash_disk.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace gpufs::test;

namespace {

constexpr std::uint64_t file = 7, folder = 1;
constexpr loss all_lost{loss::kind::all}, none_lost{loss::kind::none};

std::vector<std::byte> bytes(std::string const& text) {
  auto const* const from = reinterpret_cast<std::byte const*>(text.data());
  return {from, from + text.size()};
}

class story {
 public:
  std::size_t write(std::uint64_t offset, std::string const& text, std::int64_t result = -1000) {
    auto const count = result == -1000 ? std::int64_t(text.size()) : result;
    return add({.what = change::bytes, .inode = file, .offset = offset, .data = bytes(text)},
               count);
  }
  std::size_t size(std::uint64_t to) {
    return add({.what = change::size, .inode = file, .offset = to}, 0);
  }
  std::size_t sync(std::uint64_t inode, std::int64_t result = 0) {
    return add({.what = change::sync, .inode = inode}, result);
  }
  std::size_t name(change what, std::string const& path, std::string const& to = {}) {
    return add({.what = what, .inode = file, .folder = folder, .path = path, .to = to}, 0);
  }
  std::size_t add(file_change&& c, std::int64_t result) {
    log.push_back({std::move(c), time, time + 1, result});
    time += 2;
    return log.size() - 1;
  }
  /// What the file has at the end.
  [[nodiscard]] std::string left(loss const& lost, std::string const& before = "old") const {
    crash_disk const disk(log);
    auto const image = disk.image(file, bytes(before), disk.moments() - 1, lost);
    return {reinterpret_cast<char const*>(image.data()), image.size()};
  }
  [[nodiscard]] crash_disk::names named(loss const& lost, crash_disk::names before) const {
    crash_disk const disk(log);
    return disk.named(std::move(before), disk.moments() - 1, lost);
  }

  std::vector<logged_change> log;
  std::uint64_t time = 1;
};

}  // namespace

TEST_CASE("crash disk: bytes survive a sync of their file that began after the write had ended") {
  story s;
  s.write(1, "new");
  s.sync(folder);
  CHECK(s.left(all_lost) == "old");
  CHECK(s.left(none_lost) == "onew");
  auto const failed = s.sync(file, -5);
  CHECK(s.left(all_lost) == "old");
  s.log[failed].result = 0;
  CHECK(s.left(all_lost) == "onew");
  s.log[failed].begin = s.log[0].end;  // at the same time: not after it
  CHECK(s.left(all_lost) == "old");
  s.log[failed].begin = s.log[0].end + 1;
  s.log[failed].end = no_time;  // still under way
  CHECK(s.left(all_lost) == "old");
}

TEST_CASE(
    "crash disk: sizes are changes as bytes are, and short or failed writes are what they are") {
  story s;
  s.size(1);
  s.write(2, "xyz", 2);
  s.write(0, "failed", -28);
  CHECK(s.left(none_lost) == std::string("o\0xy", 4));
  CHECK(s.left(all_lost) == "old");
  s.sync(file);
  CHECK(s.left(all_lost) == std::string("o\0xy", 4));
}

TEST_CASE("crash disk: sectors are lost one by one") {
  story s;
  s.write(500, std::string(600, 'n'));  // 12 bytes, 512 bytes, 76 bytes
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const left = s.left({loss::kind::some, seed}, std::string(1100, 'o'));
    for (auto const& [begin, end] : {std::pair{0, 500}, {500, 512}, {512, 1024}, {1024, 1100}})
      for (int i = begin; i < end; ++i) REQUIRE(left[std::size_t(i)] == left[std::size_t(begin)]);
    seen.insert(left);
  }
  CHECK(seen.size() == 8);
}

TEST_CASE("crash disk: names survive a sync of their folder, and a rename is whole") {
  story s;
  crash_disk::names const before{{"/b", 3}}, after{{"/b", file}};
  s.name(change::put_name, "/a");
  s.name(change::move_name, "/a", "/b");
  CHECK(s.named(all_lost, before) == before);
  CHECK(s.named(none_lost, before) == after);
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    CHECK(s.named({loss::kind::some, seed}, before).contains("/b"));
  s.sync(file);
  CHECK(s.named(all_lost, before) == before);
  s.sync(folder);
  CHECK(s.named(all_lost, before) == after);
  s.name(change::remove_name, "/b");
  CHECK(s.named(all_lost, before) == after);
  s.add({.what = change::sync_all}, 0);
  CHECK(s.named(all_lost, before).empty());
}
