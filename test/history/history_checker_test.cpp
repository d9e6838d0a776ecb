// The checker of histories, on histories that are made up: what docs/consistency.md allows, and
// what it does not.
#include <gpufs/file.hpp>

#include <test/history/check.hpp>
#include <test/history/overlaps.hpp>
#include <test/history/shrink.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::history;

namespace {

constexpr std::uint32_t first_tag = initial_tag + 1;

/// Calls one after the other, unless told otherwise. Actors: a, b are blocks of filesystem 1, c one
/// of filesystem 2; the host's calls are on filesystem 1.
class story {
 public:
  static constexpr std::uint32_t a = 0, b = 1, c = 2, host = 3, outsider = 4;

  explicit story(std::uint64_t size) {
    p.initial_size = size;
    p.filesystems = 2;
    p.actors = {{actor_kind::block, 1, 0},
                {actor_kind::block, 1, 0},
                {actor_kind::block, 1, 1},
                {actor_kind::host, 1, 0},
                {actor_kind::outsider, 1, 0}};
    for (std::uint32_t const who : {a, b, c}) add({.what = call_kind::context, .actor = who}, 0);
  }

  std::size_t add(call each, std::int64_t result, std::vector<std::byte> bytes = {}) {
    constexpr std::uint32_t filesystems[] = {1, 1, 2, 1, 0};
    each.filesystem = filesystems[each.actor];
    p.calls.push_back(each);
    h.push_back({clock, clock + 1, result, std::move(bytes)});
    clock += 2;
    return h.size() - 1;
  }
  std::int32_t open(std::uint32_t who, int flags) {
    add({.what = call_kind::open, .actor = who, .handle = handles, .flags = flags}, 65536);
    return handles++;
  }
  std::size_t close(std::uint32_t who, std::int32_t handle, std::int64_t result = 0) {
    return add({.what = call_kind::close, .actor = who, .handle = handle}, result);
  }
  std::size_t simple(call_kind what, std::uint32_t who, std::int32_t handle,
                     std::int64_t result = 0) {
    return add({.what = what, .actor = who, .handle = handle}, result);
  }
  std::size_t truncate(std::uint32_t who, std::int32_t handle, std::int64_t size,
                       std::int64_t result = 0) {
    return add({.what = call_kind::truncate, .actor = who, .handle = handle, .offset = size},
               result);
  }
  std::size_t write(std::uint32_t who, std::int32_t handle, std::int64_t at, std::uint64_t count,
                    std::uint32_t tag, std::int64_t result = -1000) {
    return add({.what = call_kind::write,
                .actor = who,
                .handle = handle,
                .offset = at,
                .count = count,
                .tag = tag},
               result == -1000 ? std::int64_t(count) : result);
  }
  /// A read of `count` bytes that gives bytes of these tags, one each; fewer than `count` at the
  /// end of the file. Tag 0: zero.
  std::size_t read(std::uint32_t who, std::int32_t handle, std::int64_t at, std::uint64_t count,
                   std::vector<std::uint32_t> const& seen) {
    std::vector<std::byte> bytes;
    for (auto const tag : seen)
      bytes.push_back(tag == 0 ? std::byte{0} : value_of(tag, std::uint64_t(at) + bytes.size()));
    auto const result = std::int64_t(bytes.size());
    return add(
        {.what = call_kind::read, .actor = who, .handle = handle, .offset = at, .count = count},
        result, std::move(bytes));
  }
  /// After a loss of power now, the file has bytes of these tags.
  std::size_t crash(std::vector<std::uint32_t> const& left) {
    auto const i = read(outsider, -1, 0, left.size() + 1, left);
    p.calls[i].what = call_kind::crash;
    return i;
  }
  /// Makes two calls run side by side.
  void overlap(std::size_t x, std::size_t y) { h[x].end = h[y].end + 1, ++clock; }

  [[nodiscard]] bool allowed() const { return check(p, h).empty(); }
  [[nodiscard]] std::string wrong() const {
    std::string text;
    for (auto const& line : check(p, h)) text += line + '\n';
    return text;
  }

  program p;
  gpufs::history::history h;
  std::uint64_t clock = 10;
  std::int32_t handles = 0;
};

constexpr auto a = story::a, b = story::b, c = story::c, host = story::host,
               outsider = story::outsider;
constexpr std::uint32_t old = initial_tag;

}  // namespace

TEST_CASE("values tell the tag wherever they are, and misplaced ones do not") {
  for (std::uint64_t at = 0; at < 400; at += 3) {
    for (std::uint32_t tag = 1; tag < tags; ++tag) {
      REQUIRE(value_of(tag, at) != std::byte{0});
      REQUIRE(tag_of(value_of(tag, at), at) == tag);
    }
    CHECK(tag_of(value_of(first_tag, at), at + 1) != first_tag);
  }
}

TEST_CASE("a block must see what another block's gwrite has written, from its return on") {
  for (bool const stale : {false, true}) {
    story s(4);
    auto const writer = s.open(a, O_RDWR), reader = s.open(b, O_RDONLY);
    s.write(a, writer, 1, 2, first_tag);
    s.read(b, reader, 0, 4, {old, first_tag, stale ? old : first_tag, old});
    CHECK(s.allowed() != stale);
  }
}

TEST_CASE("while a write runs, each byte is old or new, and a later reader does not go back") {
  for (bool const back : {false, true}) {
    story s(4);
    auto const writer = s.open(a, O_RDWR), reader = s.open(b, O_RDONLY);
    auto const w = s.write(a, writer, 0, 4, first_tag);
    s.read(b, reader, 0, 4, {first_tag, old, first_tag, old});
    auto const last = s.read(b, reader, 0, 4, {back ? old : first_tag, old, first_tag, old});
    s.overlap(w, last);
    CHECK(s.allowed() != back);
  }
}

TEST_CASE("of two gwrites, the later one must be read, and be in the file") {
  for (auto const who : {b, outsider}) {
    for (bool const reversed : {false, true}) {
      story s(4);
      auto const h = s.open(a, O_RDWR);
      s.write(a, h, 0, 2, first_tag);
      s.write(a, h, 0, 2, first_tag + 1);
      s.simple(call_kind::sync, a, h);
      auto const top = reversed ? first_tag : first_tag + 1;
      s.read(who, who == b ? h : -1, 0, 4, {top, top, old, old});
      CHECK(s.allowed() != reversed);
    }
  }
}

TEST_CASE("other processes must see a gwrite after gfsync, gftruncate or the last close only") {
  for (int const how : {0, 1, 2, 3, 4}) {
    CAPTURE(how);
    story s(4);
    auto const h = s.open(a, O_RDWR);
    s.write(a, h, 0, 1, first_tag);
    bool published = how != 0;
    if (how == 1) s.simple(call_kind::sync, a, h);
    if (how == 2) s.truncate(a, h, 4);
    if (how == 3) s.close(a, h);
    if (how == 4) {
      s.close(a, h, -ENOSPC);
      s.p.fail_until = 1;
      published = false;
    }
    s.read(outsider, -1, 0, 4, {old, old, old, old});
    CHECK(s.allowed() == !published);
    s.h.back().bytes[0] = value_of(first_tag, 0);
    CHECK(s.allowed());
  }
}

TEST_CASE("a close is the last one only if no other descriptor is open for writing") {
  story s(4);
  auto const h = s.open(a, O_RDWR), other = s.open(b, O_WRONLY);
  s.write(a, h, 0, 1, first_tag);
  s.close(a, h);
  s.read(outsider, -1, 0, 4, {old, old, old, old});
  CHECK(s.allowed());
  s.close(b, other);
  s.read(outsider, -1, 0, 4, {old, old, old, old});
  CHECK(!s.allowed());
}

TEST_CASE("close-to-open: what another process has written is seen by who opens afterwards") {
  for (bool const writer_is_open : {false, true}) {
    for (bool const stale : {false, true}) {
      story s(4);
      std::int32_t const writer = writer_is_open ? s.open(b, O_RDWR) : -1;
      auto const before = s.open(a, O_RDONLY);
      s.write(outsider, -1, 0, 1, first_tag);
      s.read(a, before, 0, 4, {old, old, old, old});
      CHECK(s.allowed());  // it has not opened the file since
      auto const after = s.open(a, O_RDONLY);
      s.read(a, after, 0, 4, {stale ? old : first_tag, old, old, old});
      CHECK(s.allowed() == (!stale || writer_is_open));
      if (!writer_is_open) continue;
      s.close(b, writer);
      auto const last = s.open(a, O_RDONLY);
      s.read(a, last, 0, 4, {stale ? old : first_tag, old, old, old});
      CHECK(s.allowed() != stale);
    }
  }
}

TEST_CASE("a second filesystem sees a gwrite when it opens the file after the writer's close") {
  for (bool const stale : {false, true}) {
    story s(4);
    auto const writer = s.open(a, O_RDWR);
    s.write(a, writer, 0, 1, first_tag);
    auto const early = s.open(c, O_RDONLY);
    s.read(c, early, 0, 4, {old, old, old, old});
    s.close(a, writer);
    CHECK(s.allowed());
    auto const late = s.open(c, O_RDONLY);
    s.read(c, late, 0, 4, {stale ? old : first_tag, old, old, old});
    CHECK(s.allowed() != stale);
  }
}

TEST_CASE("fs.write is seen by contexts made afterwards, and comes after earlier gwrites") {
  for (bool const fresh : {false, true}) {
    story s(4);
    auto const h = s.open(a, O_RDWR);
    s.write(a, h, 0, 1, first_tag);
    s.write(host, h, 0, 2, first_tag + 1);
    if (fresh) s.simple(call_kind::context, b, -1);
    s.read(b, h, 0, 4, {first_tag, old, old, old});
    CHECK(s.allowed() != fresh);
    s.h.back().bytes[0] = value_of(first_tag + 1, 0);
    s.h.back().bytes[1] = value_of(first_tag + 1, 1);
    CHECK(s.allowed());
  }
  story s(4);
  auto const h = s.open(a, O_RDWR);
  s.write(a, h, 0, 1, first_tag);
  s.write(host, h, 0, 1, first_tag + 1);
  s.close(a, h);
  s.read(outsider, -1, 0, 4, {first_tag, old, old, old});  // the gwrite came over it
  CHECK(!s.allowed());
}

TEST_CASE("bytes of O_GWRONCE are seen at the first open after its last close") {
  story s(4);
  auto const once = s.open(a, O_WRONLY | O_GWRONCE), reader = s.open(b, O_RDONLY);
  s.write(a, once, 0, 2, first_tag);
  s.read(b, reader, 0, 4, {first_tag, old, old, old});
  s.close(a, once);
  s.read(b, reader, 0, 4, {old, old, old, old});
  CHECK(s.allowed());
  auto const again = s.open(b, O_RDONLY);
  s.read(b, again, 0, 4, {old, first_tag, old, old});
  CHECK(!s.allowed());
}

TEST_CASE("bytes out of nowhere, and bytes of a write that has not begun, are not allowed") {
  for (std::uint32_t const tag : {first_tag, first_tag + 1, first_tag + 9}) {
    story s(4);
    auto const h = s.open(a, O_RDWR);
    s.read(a, h, 0, 4, {old, old, tag, old});
    s.write(a, h, 0, 1, first_tag);      // not at byte 2
    s.write(a, h, 0, 4, first_tag + 1);  // later
    CHECK(!s.allowed());
  }
}

TEST_CASE("a gap reads as zeros, and nothing else does") {
  for (int const how : {0, 1, 2}) {
    story s(2);
    auto const h = s.open(a, O_RDWR);
    s.write(a, h, 4, 1, first_tag);
    std::uint32_t const gap = how == 1 ? old : 0, first = how == 2 ? 0 : old;
    s.read(b, h, 0, 8, {first, old, gap, 0, first_tag});
    CHECK(s.allowed() == (how == 0));
  }
}

TEST_CASE("the size grows with a gwrite at once, and does not go back") {
  for (std::int64_t const size : {3, 5, 6}) {
    story s(3);
    auto const h = s.open(a, O_RDWR);
    s.write(a, h, 4, 1, first_tag);
    s.simple(call_kind::size, b, h, size);
    CHECK(s.allowed() == (size == 5));
  }
  story s(3);
  auto const h = s.open(a, O_RDWR);
  s.write(a, h, 3, 1, first_tag);
  s.read(b, h, 0, 8, {old, old, old});  // as short as before
  CHECK(!s.allowed());
}

TEST_CASE("a truncation takes bytes away for all, and they do not come back") {
  for (bool const back : {false, true}) {
    story s(4);
    auto const h = s.open(a, O_RDWR);
    s.write(a, h, 0, 4, first_tag);
    s.truncate(a, h, 2);
    s.read(b, h, 0, 4, {first_tag, first_tag});
    s.truncate(a, h, 4);
    s.read(b, h, 0, 4, {first_tag, first_tag, back ? first_tag : 0, 0});
    CHECK(s.allowed() != back);
  }
  story s(4);
  auto const h = s.open(a, O_RDWR);
  s.truncate(a, h, 2);
  s.read(b, h, 0, 4, {old, old, old});
  CHECK(!s.allowed());
}

TEST_CASE("O_TRUNC acts if the file is open nowhere, and only then") {
  for (bool const is_open : {false, true}) {
    for (bool const empty : {false, true}) {
      story s(4);
      if (is_open) s.open(b, O_RDONLY);
      auto const h = s.open(a, O_RDWR | O_TRUNC);
      s.read(a, h, 0, 4,
             empty ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{old, old, old, old});
      CHECK(s.allowed() == (empty != is_open));
    }
  }
}

TEST_CASE("appends do not overlap, are not lost, and go behind the end") {
  for (int const how : {0, 1, 2, 3}) {
    CAPTURE(how);
    story s(1);
    auto const h = s.open(a, O_RDWR | O_APPEND);
    s.write(a, h, 0, 2, 1);
    s.write(b, h, 0, 2, 2);
    std::vector<std::uint32_t> bytes[] = {
        {old, 1, 1, 2, 2}, {old, 1, 1}, {old, 1, 2, 2}, {old, 2, 2, 1, 1}};
    s.read(b, h, 0, 9, bytes[how]);
    CHECK(s.allowed() == (how == 0));
    INFO(s.wrong());
    // Side by side, either may come first.
    s.overlap(s.h.size() - 3, s.h.size() - 2);
    CHECK(s.allowed() == (how == 0 || how == 3));
  }
}

TEST_CASE("errors are allowed only where writes of write-back fail") {
  for (bool const fails : {false, true}) {
    story s(4);
    s.p.fail_until = fails ? 1 : 0;
    auto const h = s.open(a, O_RDWR);
    s.write(a, h, 0, 1, first_tag);
    s.write(a, h, 0, 2, first_tag + 1, -ENOSPC);
    s.read(b, h, 0, 2, {first_tag, old});
    s.simple(call_kind::sync, a, h, -ENOSPC);
    CHECK(s.allowed() == fails);
    auto const kept = s;
    for (int const other : {-EIO, -ETIMEDOUT}) {  // it was another error
      s = kept;
      s.simple(call_kind::sync, a, h, other);
      CHECK(!s.allowed());
    }
  }
}

TEST_CASE("shrinking leaves the calls that matter") {
  // Fails as long as it has one close and the opens of two handles.
  auto const run = [](program const& each) -> std::vector<std::string> {
    unsigned opens = 0, closes = 0;
    for (auto const& c : each.calls) {
      opens += c.what == call_kind::open ? 1 : 0;
      closes += c.what == call_kind::close ? 1 : 0;
      if (c.after != 0) CHECK(c.after <= std::uint32_t(&c - each.calls.data()));
    }
    return opens >= 2 && closes >= 1 ? std::vector<std::string>{"fails"}
                                     : std::vector<std::string>{};
  };
  program failing;
  std::uint64_t n = 0;
  do failing = generate(n++);
  while (run(failing).empty());
  auto const small = shrink(failing, run, 1, 100000);
  CHECK(small.calls.size() == 3);
}

TEST_CASE("programs follow from their seed, and wait for earlier calls alone") {
  for (std::uint64_t n = 0; n < 200; ++n) {
    auto const p = generate(n);
    CHECK(to_text(p) == to_text(generate(n)));
    for (std::size_t i = 0; i < p.calls.size(); ++i) {
      auto const& c = p.calls[i];
      REQUIRE(c.after <= i);
      if (c.after != 0)
        CHECK(p.actors[p.calls[c.after - 1].actor].phase <= p.actors[c.actor].phase);
    }
  }
}

TEST_CASE("without overlaps, reads wait for writes of the same bytes or are left out") {
  story s(100);
  auto const ha = s.open(a, O_RDWR), hb = s.open(b, O_RDWR), hc = s.open(c, O_RDWR);
  auto const wrote = s.write(a, ha, 0, 10, first_tag);
  auto const apart = s.read(b, hb, 20, 5, {});
  auto const elsewhere = s.read(c, hc, 0, 10, {});  // another filesystem, other pages
  auto const meets = s.read(b, hb, 5, 10, {});
  auto const later = s.write(b, hb, 8, 4, first_tag + 1);  // of two writes, either may be last
  auto const all = without_overlaps(s.p);
  REQUIRE(all.calls.size() == s.p.calls.size());
  for (auto const i : {wrote, apart, elsewhere, later}) CHECK(all.calls[i].after == 0);
  CHECK(all.calls[meets].after == wrote + 1);

  // The last block's read is beside two writes that have no order. Another call waits for it.
  s.p.actors.push_back({actor_kind::block, 1, 0});
  auto const last = std::uint32_t(s.p.actors.size() - 1);
  s.p.calls[meets].actor = last;
  std::swap(s.p.calls[meets], s.p.calls[later]);
  auto const waits = s.write(a, ha, 50, 4, first_tag + 2);
  s.p.calls[waits].after = std::uint32_t(later + 1);
  auto const fewer = without_overlaps(s.p);
  REQUIRE(fewer.calls.size() == s.p.calls.size() - 1);
  CHECK(fewer.calls[later].what == call_kind::write);  // the call behind the read
  CHECK(fewer.calls[later].after == 0);                // for which there is nothing to wait
  s.p.calls[later] = {.what = call_kind::open, .actor = last, .filesystem = 1, .flags = O_TRUNC};
  s.p.calls[wrote].what = call_kind::read;  // beside the read of another block
  auto const kept = without_overlaps(s.p);
  REQUIRE(kept.calls.size() == s.p.calls.size());
  CHECK(kept.calls[later].flags == 0);  // a handle that others need
}

TEST_CASE("crash: what gfsync has returned for must be there, and nothing else need be") {
  auto const after_sync = [](bool synced, std::vector<std::uint32_t> const& left) {
    story s(2);
    auto const fd = s.open(a, O_RDWR);
    s.write(a, fd, 1, 2, first_tag);
    if (synced) s.simple(call_kind::sync, b, fd);
    s.write(a, fd, 0, 1, first_tag + 1);
    s.crash(left);
    s.write(a, fd, 1, 1, first_tag + 2);
    return s.allowed();
  };
  CHECK(after_sync(true, {old, first_tag, first_tag}));
  CHECK(after_sync(true, {first_tag + 1, first_tag, first_tag}));
  CHECK_FALSE(after_sync(true, {old, old, first_tag}));
  CHECK_FALSE(after_sync(true, {old, first_tag}));
  CHECK_FALSE(after_sync(true, {old, first_tag, 0}));
  CHECK_FALSE(after_sync(true, {old, first_tag, first_tag, 0}));   // no call made it so long
  CHECK_FALSE(after_sync(true, {old, first_tag + 2, first_tag}));  // written later
  CHECK_FALSE(after_sync(true, {0, first_tag, first_tag}));        // zero, though it had a byte
  CHECK(after_sync(false, {old, old}));
  CHECK(after_sync(false, {old, old, first_tag}));
  CHECK(after_sync(false, {old, old, 0}));  // the file grew, its new byte did not get there
}

TEST_CASE("crash: a sync covers the calls that were over when it began, truncations too") {
  story s(2);
  auto const fd = s.open(a, O_RDWR);
  auto const sync = s.simple(call_kind::sync, b, fd);
  auto const write = s.write(a, fd, 0, 1, first_tag);
  s.overlap(sync, write);
  s.crash({old, old});
  CHECK(s.wrong() == "");
  s.truncate(a, fd, 1);
  s.crash({first_tag, old});
  CHECK(s.wrong() == "");
  s.simple(call_kind::sync, host, fd);
  s.crash({first_tag});
  CHECK(s.wrong() == "");
  s.crash({first_tag, old});
  CHECK_FALSE(s.allowed());
}

TEST_CASE("crash: neither gclose nor fs.sync() makes bytes durable") {
  story s(1);
  auto const fd = s.open(a, O_RDWR);
  s.write(a, fd, 0, 1, first_tag);
  s.close(a, fd);
  s.simple(call_kind::sync_all, host, -1);
  s.crash({old});
  CHECK(s.wrong() == "");
}
