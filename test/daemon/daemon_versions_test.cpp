// Versions of the contents of files: when an open may trust cached pages, and when not.
#include <host-daemon/files/content_versions.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <set>

using gpufs::daemon::content_versions;
using gpufs::daemon::file_stamp;
using gpufs::daemon::is_young;
using gpufs::daemon::version_numbers;
namespace rpc = gpufs::rpc;

namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t now = 1'000'000 * second + 123'456'789;
constexpr file_stamp old_file{.device = 1,
                              .inode = 2,
                              .size = 100,
                              .mtime_ns = now - 50 * second,
                              .ctime_ns = now - 50 * second};

file_stamp with_times(std::int64_t mtime, std::int64_t ctime) {
  auto s = old_file;
  s.mtime_ns = mtime, s.ctime_ns = ctime;
  return s;
}

}  // namespace

TEST_CASE("versions: a stamp is young for 10 ms, or for 2 s if both its times are whole seconds") {
  CHECK(is_young(with_times(now, now), now));
  CHECK(is_young(with_times(now - 9 * millisecond, now - 9 * millisecond), now));
  CHECK_FALSE(is_young(with_times(now - 10 * millisecond, now - 10 * millisecond), now));
  auto const whole = 1'000'000 * second;
  CHECK(is_young(with_times(whole, whole), whole + second));
  CHECK_FALSE(is_young(with_times(whole, whole), whole + 2 * second));
  CHECK_FALSE(is_young(with_times(whole, whole + 1), whole + second));
}

TEST_CASE(
    "versions: ctime in the future stays young; mtime in the far future, which anybody can set, "
    "does not count") {
  CHECK(is_young(with_times(now - second, now + second), now));
  CHECK_FALSE(is_young(with_times(now + 1000 * second, now - second), now));
  CHECK(is_young(with_times(now + millisecond, now - second), now));
}

TEST_CASE("versions: an unchanged file keeps its version, open or closed") {
  version_numbers numbers{10};
  content_versions v{numbers};
  auto const first = v.open(old_file, now, 1);
  CHECK(first.version != 0);
  CHECK(first.size == 100);
  auto const again = v.open(old_file, now + second, 2);
  CHECK(again.version == first.version);
  CHECK_FALSE(again.changed);
  v.close(1, 2);
  v.close(1, 2);
  CHECK(v.open(old_file, now + 2 * second, 3).version == first.version);
}

TEST_CASE(
    "versions: another size, mtime, ctime, inode or device means a new version, never used "
    "before") {
  version_numbers numbers{10};
  content_versions v{numbers};
  auto const first = v.open(old_file, now, 1).version;
  std::uint64_t order = 2;
  std::set<std::uint64_t> seen{first};
  auto changed = old_file;
  auto const expect_new = [&] {
    auto const next = v.open(changed, now, order++);
    CHECK(next.changed);
    CHECK(seen.insert(next.version).second);
    CHECK(next.size == changed.size);
  };
  changed.size = 101, expect_new();
  changed.mtime_ns += 1, expect_new();
  changed.ctime_ns += 1, expect_new();
  changed.inode = 3, expect_new();
  changed.device = 9, expect_new();
  CHECK(seen.insert(v.open(old_file, now, order++).version).second);
}

TEST_CASE("versions: a file that changes keeps its series, until that is used up") {
  version_numbers numbers{10};
  content_versions v{numbers};
  auto const first = v.open(old_file, now, 1, true).version;
  auto const other = numbers.fresh_version();
  CHECK(rpc::series_of(other) != rpc::series_of(first));
  auto last = first;
  std::uint64_t order = 2;
  bool one_after_the_other = true;
  while (one_after_the_other && rpc::series_of(last + 1) == rpc::series_of(first)) {
    auto const next = v.renew(old_file.device, old_file.inode, 1, order++).version;
    one_after_the_other = next == last + 1;
    last = next;
  }
  CHECK(one_after_the_other);
  auto const next = v.renew(old_file.device, old_file.inode, 1, order++).version;
  CHECK(next > last);
  CHECK(rpc::series_of(next) != rpc::series_of(other));
}

TEST_CASE(
    "versions: a stamp that was young when it was taken counts as changed at the next open, and "
    "only then") {
  version_numbers numbers{10};
  content_versions v{numbers};
  auto const fresh = with_times(now - millisecond, now - millisecond);
  auto const first = v.open(fresh, now, 1).version;
  SUBCASE("while open") {}
  SUBCASE("closed in between") { v.close(1, 2); }
  auto const second_open = v.open(fresh, now + second, 2);
  CHECK(second_open.changed);
  CHECK(second_open.version != first);
  CHECK(v.open(fresh, now + 2 * second, 3).version == second_open.version);
}

TEST_CASE("versions: a validation that was overtaken adopts the result of the later one") {
  version_numbers numbers{10};
  content_versions v{numbers};
  v.open(old_file, now, 1);
  auto grown = old_file;
  grown.size = 200, grown.ctime_ns += 1;
  auto const newer = v.open(grown, now, 3);
  auto const overtaken = v.open(old_file, now, 2);
  CHECK(overtaken.version == newer.version);
  CHECK(overtaken.size == 200);
  CHECK_FALSE(overtaken.changed);
}

TEST_CASE("versions: of closed files the most recently closed are remembered, open ones always") {
  version_numbers numbers{2};
  content_versions v{numbers};
  std::uint64_t order = 1;
  auto const file = [](std::uint64_t inode) {
    auto s = old_file;
    s.inode = inode;
    return s;
  };
  std::uint64_t version[6];
  for (std::uint64_t i = 1; i <= 5; ++i) version[i] = v.open(file(i), now, order++).version;
  for (std::uint64_t i = 1; i <= 4; ++i) v.close(1, i);
  CHECK(v.size() == 3);
  CHECK(v.open(file(3), now, order++).version == version[3]);
  CHECK(v.open(file(4), now, order++).version == version[4]);
  CHECK(v.open(file(5), now, order++).version == version[5]);
  CHECK(v.open(file(1), now, order++).version > version[5]);
}

TEST_CASE(
    "versions: a block file that was open for writing is the kernels' again after it closed") {
  constexpr std::uint8_t backing = 3;
  for (bool const writes : {false, true}) {
    version_numbers numbers{10, 2};
    content_versions v{numbers};
    std::uint64_t order = 1;
    auto const written = v.open(old_file, now, order++, true, backing);
    CHECK(written.write_index != 0);
    // Beside a writer, a reader sees the written file.
    CHECK(v.open(old_file, now, order++, false, backing).version == written.version);
    if (writes) v.written(1, 2);
    v.close(1, 2, true);
    v.close(1, 2);
    auto const again = v.open(old_file, now, order++, false, backing);
    CHECK(again.changed);
    CHECK(again.version != written.version);
    CHECK(again.write_index == 0);
    CHECK(rpc::block_backing_of(again.version) == backing);
    v.close(1, 2);
    CHECK(v.open(old_file, now, order++, false, backing).version == again.version);
  }
}

TEST_CASE(
    "versions: a written file that was opened while no write index was free gets one with a new "
    "version") {
  version_numbers numbers{10, 1};
  content_versions v{numbers};
  std::uint64_t order = 1;
  auto other = old_file;
  other.inode = 3;
  CHECK(v.open(other, now, order++, true).write_index != 0);
  CHECK(v.open(old_file, now, order++, true).write_index == 0);
  auto const reader = v.open(old_file, now, order++);
  CHECK(reader.write_index == 0);
  v.close(other.device, other.inode, true);
  auto const writer = v.open(old_file, now, order++, true);
  CHECK(writer.write_index != 0);
  CHECK(writer.changed);
  CHECK(writer.version != reader.version);
  // With an index it stays.
  CHECK_FALSE(v.open(old_file, now, order++, true).changed);
}

TEST_CASE("versions: no writer finds pages that were cached while no write index was free") {
  version_numbers numbers{10, 1};
  content_versions v{numbers};
  std::uint64_t order = 1;
  auto other = old_file;
  other.inode = 3;
  v.open(old_file, now, order++, true);
  v.close(old_file.device, old_file.inode, true);
  v.open(other, now, order++, true);
  auto const reader = v.open(old_file, now, order++);
  CHECK(reader.write_index == 0);
  v.close(old_file.device, old_file.inode);
  v.close(other.device, other.inode, true);
  auto const writer = v.open(old_file, now, order++, true);
  CHECK(writer.write_index != 0);
  CHECK(writer.version != reader.version);
  // Beside a writer that is refused for want of an index, too.
  content_versions w{numbers};
  numbers.return_write_index(writer.write_index);
  auto const taken = w.open(other, now, order++, true);
  CHECK(w.open(old_file, now, order++, true).write_index == 0);
  auto const beside = w.open(old_file, now, order++);
  w.close(old_file.device, old_file.inode, true);
  w.close(old_file.device, old_file.inode);
  CHECK(taken.write_index != 0);
  w.close(other.device, other.inode, true);
  CHECK(w.open(old_file, now, order++, true).version != beside.version);
}

TEST_CASE("versions: closing what is not open changes nothing") {
  version_numbers numbers{2};
  content_versions v{numbers};
  v.close(1, 2);
  auto const version = v.open(old_file, now, 1).version;
  v.close(1, 2);
  v.close(1, 2);
  CHECK(v.open(old_file, now, 2).version == version);
}
