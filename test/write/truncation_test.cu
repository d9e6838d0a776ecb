// gftruncate beside gwrites, through descriptors with O_GWRONCE and without.
#include <gpufs/gpufs.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;

/// A context that knows the file, before and after the file gets `size` bytes through `other`.
__global__ void read_around(fs_ref fs, int fd, int other, std::int64_t size, std::byte* bytes,
                            std::uint64_t count, std::int64_t* results) {
  io_context io(fs, cg::this_thread_block());
  array<std::uint8_t const> elements(io, fd);
  ssize_t const before = gread(io, fd, bytes, count, 0);
  unsigned const last = elements[before - 1];
  int const cut = gftruncate(io, other, size);
  ssize_t const after = gread(io, fd, bytes, count, 0);
  static_cast<void>(elements[(size < before ? size : before) - 1]);
  int const inside = elements.error();
  if (size < before) static_cast<void>(elements[size]);
  int const behind = elements.error();
  if (threadIdx.x == 0) {
    std::int64_t const all[] = {before, last, cut, after, inside, behind};
    for (unsigned i = 0; i < 6; ++i) results[i] = all[i];
  }
}

}  // namespace

TEST_CASE("truncation: a gwrite beside it is kept whole or cut whole, with O_GWRONCE and without") {
  CAPTURE(seed());
  std::uint64_t const count = 40 * page + 100;
  unsigned kept = 0;
  for (unsigned n = 0; n < scaled(120, 40); ++n) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", 3 * page);
    filesystem fs(small_config(page, 64));
    int const plain = fs.open(path, O_RDWR), once = fs.open(path, O_GWRONCE);
    int const writes = n % 2 == 0 ? once : plain, cuts = n % 3 == 0 ? plain : once;
    CAPTURE(n);
    auto const bytes = some_bytes(seed() + n, 0, count);
    op_batch batch;
    // Some cuts come before, some come later.
    for (unsigned i = 0; i < n % 7 * 4; ++i) batch.size_of(n % 2, plain);
    auto const put = batch.write(0, writes, 0, bytes);
    auto const cut = batch.truncate(1, cuts, 0);
    batch.run(fs.ref(), 2, 64);
    CHECK(batch.result(put) == std::int64_t(count));
    CHECK(batch.result(cut) == 0);
    CHECK(fs.close(once) == 0);
    CHECK(fs.close(plain) == 0);
    auto const found = pread_bytes(path, 0, ~0ull);
    CHECK((found.empty() || found == bytes));
    kept += found.empty() ? 0 : 1;
  }
  CHECK(kept > 0);
  CHECK(kept < scaled(120, 40));
}

TEST_CASE("truncation: all contexts see the new size at once, through which descriptor it came") {
  std::uint64_t const count = 6 * page + 10;
  for (int const reads : {O_RDONLY, O_RDWR})
    for (std::int64_t const size :
         {std::int64_t(100), std::int64_t(page), std::int64_t(9 * page)}) {
      scratch_folder folder;
      auto const path = make_file(folder, "file", count);
      auto const old = pread_bytes(path, 0, ~0ull);
      filesystem fs(small_config(page, 64));
      int const fd = fs.open(path, reads), once = fs.open(path, O_GWRONCE);
      CAPTURE(reads);
      CAPTURE(size);
      buffer<std::byte> bytes(20 * page);
      auto results = zeroed<std::int64_t>(6);
      launch(read_around, 1, 64, fs.ref(), fd, once, size, bytes.data(), 20 * page, results.data());
      auto const got = result_in(results);
      CHECK(got[0] == std::int64_t(count));
      CHECK(got[1] == std::int64_t(old[count - 1]));
      CHECK(got[2] == 0);
      CHECK(got[3] == size);
      CHECK(got[4] == 0);                                        // an element inside
      CHECK(got[5] == (size < std::int64_t(count) ? -EIO : 0));  // and one behind the end
      auto seen = result_in(bytes);
      seen.resize(std::size_t(size));
      auto expected = old;
      expected.resize(std::size_t(size));  // zeros behind the old end
      CHECK(seen == expected);
      CHECK(pread_bytes(path, 0, ~0ull) == expected);
    }
}

TEST_CASE(
    "truncation: gwrites of both kinds that returned before are in the file, as it leaves them") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 0);
  filesystem fs(small_config(page, 64));
  int const plain = fs.open(path, O_RDWR), once = fs.open(path, O_GWRONCE);
  auto const first = some_bytes(1, 0, 4 * page), second = some_bytes(2, 0, 4 * page);
  for (int const cuts : {plain, once}) {
    op_batch batch;
    batch.write(0, plain, 0, first);
    batch.write(0, once, 4 * page, second);
    auto const cut = batch.truncate(0, cuts, 5 * page + 7);
    auto const longer = batch.truncate(0, cuts, 20 * page);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.result(cut) == 0);
    CHECK(batch.result(longer) == 0);
    auto expected = first;
    expected.insert(expected.end(), second.begin(), second.begin() + page + 7);
    expected.resize(20 * page);
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
  }
}

TEST_CASE("truncation: writers through both kinds and cuts, side by side, all end") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3 * page);
  filesystem fs(small_config(page, 64));
  int const plain = fs.open(path, O_RDWR), once = fs.open(path, O_GWRONCE);
  op_batch batch;
  for (unsigned i = 0; i < scaled(40, 10); ++i) {
    batch.write(0, plain, std::int64_t(i * page), some_bytes(1, 0, 3 * page));
    batch.write(1, once, std::int64_t(i * page), some_bytes(2, 0, 3 * page));
    batch.truncate(2, plain, std::int64_t(i * page / 2));
    batch.truncate(3, once, std::int64_t(i * page));
  }
  batch.run(fs.ref(), 4, 64);
  std::vector<std::int64_t> wrong;
  for (std::size_t op = 0; op < batch.size(); ++op)
    if (batch.result(op) != (op % 4 < 2 ? std::int64_t(3 * page) : 0))
      wrong.push_back(batch.result(op));
  CHECK(wrong == std::vector<std::int64_t>{});
}
