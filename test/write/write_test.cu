// gwrite, gfsync, gclose, gftruncate: what lands in the file, what is seen before, sizes, holes,
// appends, refusals.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

std::vector<std::byte> whole(std::string const& path) { return pread_bytes(path, 0, ~0ull); }

}  // namespace

TEST_CASE(
    "gwrite: what was written is read at once, and is in the file after gfsync, for all page "
    "sizes") {
  for (std::uint64_t const page : {512u, 4096u, 65536u, 1u << 20}) {
    scratch_folder folder;
    auto const path = folder / "new";
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDWR | O_CREAT);
    REQUIRE(fd > 0);
    auto const bytes = some_bytes(1, 0, 3 * page + 77);
    op_batch batch;
    auto const written = batch.write(0, fd, 0, bytes, 3);
    auto const read = batch.read(0, fd, 0, 4 * page);
    auto const size = batch.size_of(0, fd);
    auto const synced = batch.sync(0, fd);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(page);
    CHECK(batch.result(written) == std::int64_t(bytes.size()));
    CHECK(batch.result(read) == std::int64_t(bytes.size()));
    CHECK(batch.bytes(read) == bytes);
    CHECK(batch.result(size) == std::int64_t(bytes.size()));
    CHECK(batch.result(synced) == 0);
    CHECK(whole(path) == bytes);
    CHECK(fs.stats().host_reads == 0);  // nothing was there to be fetched
    CHECK(fs.stats().bytes_written == bytes.size());
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.close(fd) == 0);
  }
}

TEST_CASE("gwrite: parts of pages change those bytes only") {
  for (std::uint64_t const page : {512u, 4096u, 65536u}) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", 10 * page + 11);
    auto expected = whole(path);
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDWR);
    op_batch batch;
    std::vector<std::size_t> writes;
    for (auto const& [offset, count] :
         std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 1},
                                                              {page - 1, 2},
                                                              {3 * page + 5, page / 2},
                                                              {5 * page, page},
                                                              {6 * page - 3, 2 * page + 7},
                                                              {10 * page + 10, 1}}) {
      auto const bytes = some_bytes(7, offset, count);
      writes.push_back(batch.write(0, fd, std::int64_t(offset), bytes, unsigned(offset % 16)));
      std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(offset));
    }
    auto const read = batch.read(0, fd, 0, expected.size() + 100);
    auto const closed = batch.close(0, fd);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(page);
    CHECK(batch.bytes(read) == expected);
    CHECK(batch.result(closed) == 0);
    CHECK(whole(path) == expected);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("gwrite: beyond the end it leaves a hole of zeros, before and after write-back") {
  constexpr std::uint64_t page = 4096;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100);
  auto expected = whole(path);
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const bytes = some_bytes(3, 0, 10);
  expected.resize(20 * page + 5);
  expected.insert(expected.end(), bytes.begin(), bytes.end());
  op_batch batch;
  auto const early = batch.read(0, fd, 0, 200);
  batch.write(0, fd, 20 * page + 5, bytes);
  auto const first = batch.read(0, fd, 0, 21 * page);
  auto const synced = batch.sync(0, fd);
  auto const again = batch.read(0, fd, 0, 21 * page);
  batch.run(fs.ref(), 1, 96);
  CHECK(batch.result(early) == 100);
  CHECK(batch.bytes(first) == expected);
  CHECK(batch.result(synced) == 0);
  CHECK(batch.bytes(again) == expected);
  CHECK(whole(path) == expected);
}

TEST_CASE("gwrite: sparse files of terabytes, with page numbers beyond 32 bits") {
  constexpr std::uint64_t page = 512;
  constexpr std::uint64_t places[] = {0, (std::uint64_t(5) << 30) + 3,
                                      (std::uint64_t(4) << 40) + 77};
  scratch_folder folder;
  auto const path = folder / "sparse";
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  op_batch batch;
  std::vector<std::size_t> reads;
  for (auto const at : places) batch.write(0, fd, std::int64_t(at), some_bytes(1, at, 3 * page));
  auto const gap = batch.read(0, fd, std::int64_t(places[1] + 3 * page), 2 * page);
  for (auto const at : places) reads.push_back(batch.read(0, fd, std::int64_t(at), 3 * page));
  auto const size = batch.size_of(0, fd);
  auto const closed = batch.close(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.bytes(gap) == std::vector<std::byte>(2 * page));
  CHECK(batch.result(size) == std::int64_t(places[2] + 3 * page));
  CHECK(batch.result(closed) == 0);
  CHECK(std::filesystem::file_size(path) == places[2] + 3 * page);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    CHECK(batch.bytes(reads[i]) == some_bytes(1, places[i], 3 * page));
    CHECK(pread_bytes(path, places[i], 3 * page) == some_bytes(1, places[i], 3 * page));
  }
}

TEST_CASE(
    "gwrite: more than the cache holds, by many blocks and tiles, is all in the file after the "
    "last close") {
  for (auto const who : {caller_kind::block, caller_kind::tile}) {
    for (std::uint64_t const page : {512u, 4096u, 65536u}) {
      scratch_folder folder;
      auto const path = folder / "big";
      filesystem fs(small_config(page, 16));
      int const fd = fs.open(path, O_RDWR | O_CREAT);
      constexpr unsigned callers = 8, writes = 12;
      op_batch batch;
      std::uint64_t const piece = 2 * page + 100;  // neighbours share pages
      std::vector<std::byte> expected;
      for (unsigned i = 0; i < callers * writes; ++i) {
        auto const bytes = some_bytes(5, i * piece, piece);
        batch.write(i % callers, fd, std::int64_t(i * piece), bytes, i % 16);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
      }
      batch.run(fs.ref(), who == caller_kind::block ? callers : callers / 2, 64, who);
      for (unsigned i = 0; i < callers * writes; ++i) CHECK(batch.result(i) == std::int64_t(piece));
      CHECK(fs.close(fd) == 0);
      CAPTURE(page);
      CHECK(whole(path) == expected);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("O_APPEND: every block's records are whole, each once") {
  constexpr unsigned blocks = 8, records = 20;
  constexpr std::uint64_t length = 100;
  scratch_folder folder;
  auto const path = make_file(folder, "log", 37);
  filesystem fs(small_config(512, 16));
  int const fd = fs.open(path, O_WRONLY | O_APPEND);
  op_batch batch;
  for (unsigned i = 0; i < blocks * records; ++i)
    batch.write(i % blocks, fd, 0, std::vector(length, std::byte(1 + i)));
  batch.run(fs.ref(), blocks, 64);
  CHECK(fs.close(fd) == 0);
  auto const got = whole(path);
  REQUIRE(got.size() == 37 + blocks * records * length);
  std::vector<unsigned> seen(256);
  for (unsigned i = 0; i < blocks * records; ++i) {
    auto const first = got.begin() + std::ptrdiff_t(37 + i * length);
    CHECK(std::all_of(first, first + length, [&](std::byte b) { return b == *first; }));
    ++seen[unsigned(*first)];
  }
  for (unsigned i = 0; i < blocks * records; ++i) CHECK(seen[1 + i] == 1);
}

TEST_CASE("O_APPEND: the offset of a gwrite does not count, however large it is") {
  scratch_folder folder;
  auto const path = make_file(folder, "log", 0);
  filesystem fs(small_config(512, 16));
  int const fd = fs.open(path, O_WRONLY | O_APPEND), other = fs.open(path, O_RDWR);
  auto const bytes = some_bytes(1, 0, 700);
  op_batch batch;
  batch.write(0, fd, INT64_MAX, bytes);
  batch.write(0, fd, 1ll << 48, bytes);
  batch.write(0, other, 1ll << 48, bytes);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(0) == 700);
  CHECK(batch.result(1) == 700);
  CHECK(batch.result(2) == -EFBIG);
  CHECK(fs.sync() == 0);
  auto twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  CHECK(whole(path) == twice);
}

TEST_CASE(
    "O_GWRONCE: nothing is fetched, only the written bytes change, and the next open sees them") {
  constexpr std::uint64_t page = 4096;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 10 * page);
  auto expected = whole(path);
  filesystem fs(small_config(page, 8));
  int const reader = fs.open(path, O_RDONLY);
  op_batch before;
  before.read(0, reader, 0, 10 * page);
  before.run(fs.ref(), 1, 64);
  auto const reads = fs.stats().host_reads;
  int const fd = fs.open(path, O_GWRONCE);
  CHECK(fd != reader);
  op_batch batch;
  for (unsigned i = 0; i < 9; ++i) {
    auto const bytes = some_bytes(9, i, 1000);
    batch.write(i % 3, fd, i * page + 100, bytes);
    std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(i * page + 100));
  }
  auto const refused = batch.read(0, fd, 0, 10);
  batch.run(fs.ref(), 3, 64);
  CHECK(batch.result(refused) == -EBADF);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.stats().host_reads == reads);
  CHECK(whole(path) == expected);
  int const again = fs.open(path, O_RDONLY);
  op_batch after;
  auto const read = after.read(0, again, 0, 10 * page);
  after.run(fs.ref(), 1, 64);
  CHECK(after.bytes(read) == expected);
}

TEST_CASE("gftruncate: to any size, with pages dirty and cached") {
  constexpr std::uint64_t page = 4096;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 5 * page);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDWR);
  auto expected = whole(path);
  for (std::uint64_t const size : {3 * page + 7, std::uint64_t{0}, 9 * page + 1, page, 2 * page}) {
    op_batch batch;
    auto const bytes = some_bytes(size, 0, 300);
    std::uint64_t const at = expected.size() / 2;
    batch.write(0, fd, std::int64_t(at), bytes);
    expected.resize(std::max<std::uint64_t>(expected.size(), at + 300));
    std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(at));
    auto const truncated = batch.truncate(0, fd, std::int64_t(size));
    expected.resize(size);
    auto const told = batch.size_of(0, fd);
    auto const read = batch.read(0, fd, 0, 12 * page);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(size);
    CHECK(batch.result(truncated) == 0);
    CHECK(batch.result(told) == std::int64_t(size));
    CHECK(batch.bytes(read) == expected);
    CHECK(whole(path) == expected);
  }
}

TEST_CASE("writing is refused where it cannot be: descriptors, offsets, settings") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 1000);
  auto c = small_config(512, 8);
  filesystem fs(c);
  int const readable = fs.open(path, O_RDONLY);
  int const writable = fs.open(path, O_WRONLY);
  op_batch batch;
  auto const bytes = some_bytes(1, 0, 10);
  auto const to_reader = batch.write(0, readable, 0, bytes);
  auto const negative = batch.write(0, writable, -1, bytes);
  auto const far = batch.write(0, writable, (std::int64_t(1) << 48) - 5, bytes);
  auto const nowhere = batch.write(0, writable + 1, 0, bytes);
  auto const read = batch.read(0, writable, 0, 10);
  auto const nothing = batch.write(0, writable, 0, {});
  auto const cut = batch.truncate(0, readable, 5);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(to_reader) == -EBADF);
  CHECK(batch.result(negative) == -EINVAL);
  CHECK(batch.result(far) == -EFBIG);
  CHECK(batch.result(nowhere) == -EBADF);
  CHECK(batch.result(read) == -EBADF);
  CHECK(batch.result(nothing) == 0);
  CHECK(batch.result(cut) == -EINVAL);
  CHECK(fs.open(path, O_RDONLY | O_TRUNC) == -EINVAL);
  c.write_memory = 0;
  filesystem unwritable(c);
  CHECK(unwritable.open(path, O_RDWR) == -EROFS);
  CHECK(unwritable.open(folder / "new", O_RDONLY | O_CREAT) == -EROFS);
  CHECK(unwritable.open(path, O_RDONLY) > 0);
}

TEST_CASE("without write buffers gfsync of a file that is read is answered") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4096;
  auto const path = make_file(folder, "file", page);
  auto c = small_config(page, 16);
  c.write_memory = 0;
  c.rpc_timeout_ms = 5'000;  // bounds the run of broken code
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  op_batch batch;
  std::vector<std::size_t> syncs;
  for (unsigned caller = 0; caller < 4; ++caller) syncs.push_back(batch.sync(caller, fd));
  batch.run(fs.ref(), 4, 64);
  for (auto const sync : syncs) CHECK(batch.result(sync) == 0);
  CHECK(inspect(fs.ref()).quarantined == 0);
}
