// Block files: what is allowed, what is refused and with which error, and the end of attachments.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

using bytes = std::vector<std::byte>;

constexpr std::uint64_t page = 4096;

nvme::software_options in_memory(std::uint64_t size, unsigned lba = 512) {
  nvme::software_options o;
  o.memory = size;
  o.lba = lba;
  o.threads = 1;
  return o;
}

nvme::software_options on_file(std::string const& path) {
  nvme::software_options o;
  o.members = {path};
  o.threads = 1;
  return o;
}

/// gunlink and gfstat by a block.
__global__ void unlink_and_stat(fs_ref fs, char const* path, int fd, std::int64_t* out,
                                file_status* status) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  file_status seen{};
  std::int64_t const unlinked = gunlink(io, path);
  std::int64_t const stated = gfstat(io, fd, &seen);
  if (threadIdx.x == 0) {
    out[0] = unlinked;
    out[1] = stated;
    *status = seen;
  }
}

/// Sums an array that lies in a file.
__global__ void sum_array(fs_ref fs, int fd, std::uint64_t count, unsigned long long* sum) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<std::uint32_t const> const a(io, fd);
  unsigned long long mine = 0;
  for (std::uint64_t i = threadIdx.x; i < count; i += blockDim.x) mine += a[i];
  atomicAdd(sum, mine);
}

bool is_refused(filesystem& fs, std::string const& name, nvme::software_options const& o,
                std::string const& says) {
  try {
    fs.attach(name, o);
  } catch (std::invalid_argument const& e) {
    CAPTURE(e.what());
    CHECK(std::string(e.what()).find(says) != std::string::npos);
    CHECK(std::string(e.what()).find("nvme:" + name) != std::string::npos);
    return std::string(e.what()).find(says) != std::string::npos;
  }
  return false;
}

std::string failure(filesystem& fs, std::string const& name, nvme::software_options const& o) {
  try {
    fs.attach(name, o);
  } catch (std::runtime_error const& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("block file calls: creating, cutting, appending and removing are refused") {
  filesystem fs(small_config(page, 16));
  fs.attach("disk", in_memory(64 << 10, 4096));
  for (int const flag : {O_CREAT, O_TRUNC, O_APPEND, O_CREAT | O_EXCL}) {
    CAPTURE(flag);
    CHECK(fs.open("nvme:disk", O_RDWR | flag) == -EINVAL);
    CHECK(open_in_kernel(fs, "nvme:disk", O_RDWR | flag) == -EINVAL);
  }
  CHECK(fs.open("nvme:other", O_RDWR) == -ENOENT);
  CHECK(fs.open("nvme:other", O_RDWR | O_CREAT) == -EINVAL);
  int const fd = open_in_kernel(fs, "nvme:disk", O_RDWR);
  REQUIRE(fd > 0);
  op_batch batch;
  auto const cut = batch.truncate(0, fd, 0), same = batch.truncate(0, fd, 64 << 10);
  auto const size = batch.size_of(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(cut) == -EINVAL);
  CHECK(batch.result(same) == -EINVAL);
  CHECK(batch.result(size) == 64 << 10);
  device_paths const path({"nvme:disk"});
  auto results = zeroed<std::int64_t>(2);
  auto status = zeroed<file_status>(1);
  launch(unlink_and_stat, 1, 64, fs.ref(), path.text(), fd, results.data(), status.data());
  CHECK(result_in(results) == std::vector<std::int64_t>{-EINVAL, 0});
  auto const seen = contents(status)[0];
  CHECK((seen.mode & S_IFMT) == S_IFBLK);
  CHECK(seen.block_size == 4096);
  CHECK(seen.size == 64 << 10);
  for (auto const what : {advice::normal, advice::random, advice::willneed, advice::dontneed})
    CHECK(fs.advise(fd, 0, 0, what) == 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("block file calls: arrays, both engines, all ways of bytes, small and large requests") {
  scratch_folder folder;
  std::uint64_t const size = scaled(1 << 20, 1 << 17);
  auto const path = make_file(folder, "member", size);
  auto const stored = pread_bytes(path, 0, size);
  unsigned long long expected = 0;
  for (std::size_t at = 0; at < stored.size(); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, stored.data() + at, 4);
    expected += word;
  }
  for (auto const engine : {io_backend::automatic, io_backend::pread}) {
    for (auto const way : built_paths) {
      CAPTURE(int(way));
      auto c = small_config(page, 64);
      c.backend = engine;
      c.path = way;
      c.prefetch_size = prefetch_automatic;
      filesystem fs(c);
      fs.attach("disk", on_file(path));
      int const fd = open_in_kernel(fs, "nvme:disk");
      REQUIRE(fd > 0);
      CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
      auto sum = zeroed<unsigned long long>(1);
      launch(sum_array, 1, 128, fs.ref(), fd, size / 4, sum.data());
      CHECK(result_in(sum)[0] == expected);
      bytes seen(stored.size() - 999);
      CHECK(fs.read(fd, seen.data(), seen.size(), 999) == std::int64_t(seen.size()));
      CHECK(std::equal(seen.begin(), seen.end(), stored.begin() + 999));
      CHECK(fs.stats().windows_registered == 0);
      CHECK(fs.stats().host_bytes_direct == 0);
      CHECK(fs.close(fd) == 0);
      CHECK(fs.detach("disk") == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("block file calls: wrong options are refused with what is allowed") {
  scratch_folder folder;
  auto const member = make_file(folder, "member", 64 << 10);
  filesystem fs(small_config(page, 16));
  auto o = in_memory(64 << 10);
  for (auto const& name : {std::string{}, std::string{"a/b"}, std::string(256, 'x')})
    CHECK(is_refused(fs, name, o, "1 to 255 bytes"));
  CHECK(is_refused(fs, "d", {}, "either members or"));
  o.members = {member};
  CHECK(is_refused(fs, "d", o, "either members or"));
  o = in_memory(64 << 10);
  o.lba = 1024;
  CHECK(is_refused(fs, "d", o, "512 or 4096"));
  o = in_memory(64 << 10);
  o.stripe = 3 * page;
  CHECK(is_refused(fs, "d", o, "a power of two"));
  o.stripe = page / 2;
  CHECK(is_refused(fs, "d", o, "at least page_size=4096"));
  o = in_memory(64 << 10);
  o.memory_members = 65;
  CHECK(is_refused(fs, "d", o, "1 to 64"));
  o = in_memory(64 << 10);
  o.threads = 65;
  CHECK(is_refused(fs, "d", o, "threads=65"));
  o = in_memory(64 << 10);
  o.memory_members = 2;  // half a stripe each
  CHECK(is_refused(fs, "d", o, "use smaller stripes"));
  CHECK(is_refused(fs, "d", on_file(make_file(folder, "odd", 1000)), "no multiple of its blocks"));
  CHECK(is_refused(fs, "d", on_file("/dev/null"), "regular file or a block device"));
  CHECK(is_refused(fs, "d", on_file(make_file(folder, "empty", 0)), "is empty"));
  for (auto const& path : {folder.path(), folder / "none"})
    CHECK(failure(fs, "d", on_file(path)).find("member " + path) != std::string::npos);
  filesystem small(small_config(512, 64));
  CHECK(is_refused(small, "d", in_memory(64 << 10, 4096), "page_size=512 must be"));
  CHECK(is_refused(fs, "d", in_memory(std::uint64_t{1} << 63), "2^62"));
  CHECK(failure(fs, "d", in_memory(std::uint64_t{1} << 61)).find("no memory for it") !=
        std::string::npos);
  fs.attach("d", in_memory(64 << 10));
  CHECK(is_refused(fs, "d", in_memory(64 << 10), "is attached already"));
  CHECK_THROWS_AS(static_cast<void>(fs.attachment_stats("e")), std::invalid_argument);
}

TEST_CASE("block file calls: drives are refused with what is missing") {
  filesystem fs(small_config(page, 16));
  nvme::vfio_options o;
  CHECK_THROWS_AS(fs.attach("d", o), std::invalid_argument);
  o.devices = {"ffff:ff:1f.7"};
  try {
    fs.attach("d", o);
    FAIL("there is no such drive");
  } catch (std::runtime_error const& e) {
    CHECK(std::string(e.what()).find("nvme:d: member ffff:ff:1f.7") != std::string::npos);
  }
  o.devices = {"ffff:ff:1f.7", "ffff:ff:1f.6", "ffff:ff:1f.7"};
  CHECK_THROWS_WITH_AS(fs.attach("d", o),
                       "nvme:d: device ffff:ff:1f.7 is named twice, name each drive once",
                       std::invalid_argument);
  o.devices = {"ffff:ff:1f.7"};
  for (std::uint32_t const nsid : {0u, 0xffffffffu}) {
    o.nsid = nsid;
    std::string const wanted = "nvme:d: nsid=" + std::to_string(nsid) + ": must be from 1";
    try {
      fs.attach("d", o);
      FAIL("there is no such namespace");
    } catch (std::invalid_argument const& e) {
      CHECK(std::string(e.what()).find(wanted) == 0);
    }
  }
  o.nsid = 1;
  o.stripe = 1;
  CHECK_THROWS_AS(fs.attach("d", o), std::invalid_argument);
  o.stripe = 1 << 20;
  CHECK_THROWS_AS(fs.attach("/", o), std::invalid_argument);
}

TEST_CASE("block file calls: members are locked against other writers, and may be read-only") {
  scratch_folder folder;
  auto const path = make_file(folder, "member", 64 << 10);
  filesystem first(small_config(page, 16)), second(small_config(page, 16));
  first.attach("a", on_file(path));
  CHECK(failure(second, "a", on_file(path)).find("is in use") != std::string::npos);
  auto reading = on_file(path);
  reading.read_only = true;
  second.attach("a", reading);
  CHECK(second.open("nvme:a", O_RDWR) == -EROFS);
  int const fd = second.open("nvme:a", O_RDONLY);
  REQUIRE(fd > 0);
  bytes seen(64 << 10);
  CHECK(second.read(fd, seen.data(), seen.size(), 0) == std::int64_t(seen.size()));
  CHECK(seen == pread_bytes(path, 0, seen.size()));
  CHECK(second.close(fd) == 0);
  CHECK(first.detach("a") == 0);
  filesystem third(small_config(page, 16));
  third.attach("a", on_file(path));
}

TEST_CASE("block file calls: bytes behind the end are refused when they are written") {
  filesystem fs(small_config(page, 16));
  fs.attach("disk", in_memory(10 * page + 512));
  int const fd = fs.open("nvme:disk", O_RDWR);
  REQUIRE(fd > 0);
  auto const what = some_bytes(1, 0, page);
  CHECK(fs.write(fd, what.data(), page, 10 * page) == 512);
  CHECK(fs.write(fd, what.data(), page, 10 * page + 512) == -ENOSPC);
  op_batch batch;
  auto const put = batch.write(0, fd, 12 * page, what);
  auto const end = batch.sync(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(put) == std::int64_t(page));
  CHECK(batch.result(end) == -ENOSPC);
  CHECK(fs.unwritten().size() == 1);
  CHECK(fs.discard(fd) == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.detach("disk") == 0);
}

TEST_CASE(
    "block file calls: detach waits for nobody who has it open, and the name can come again") {
  scratch_folder folder;
  auto const one = make_file(folder, "one", 64 << 10, 1),
             two = make_file(folder, "two", 64 << 10, 2);
  filesystem fs(small_config(page, 64));
  CHECK(fs.detach("disk") == -ENOENT);
  for (auto const& path : {one, two, one}) {
    fs.attach("disk", on_file(path));
    int const host = fs.open("nvme:disk", O_RDONLY);
    int const kernel = open_in_kernel(fs, "nvme:disk", O_RDWR);
    op_batch batch;
    auto const op = batch.read(0, kernel, 0, 64 << 10);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.bytes(op) == pread_bytes(path, 0, 64 << 10));
    CHECK(fs.detach("disk") == -EBUSY);
    CHECK(close_in_kernel(fs, {kernel}, 1)[0] == 0);
    CHECK(fs.detach("disk") == -EBUSY);
    CHECK(fs.close(host) == 0);
    CHECK(fs.detach("disk") == 0);
    CHECK(fs.open("nvme:disk", O_RDONLY) == -ENOENT);
  }
  fs.attach("disk", on_file(one));
  int const fd = fs.open("nvme:disk", O_RDONLY);
  CHECK(fd > 0);
  fs.stop();  // an open file and an attachment at the end
}

TEST_CASE("block file calls: callers that share blocks lose nothing") {
  constexpr unsigned callers = 8, rounds = 20;
  constexpr std::uint64_t size = 16 * page;
  auto c = small_config(page, 64);
  c.host_threads = 4;
  filesystem fs(c);
  fs.attach("disk", in_memory(size, 4096));
  int const fd = fs.open("nvme:disk", O_RDWR);
  REQUIRE(fd > 0);
  // Byte i is caller i modulo their number's. They write past the page cache, side by side.
  std::vector<std::thread> threads;
  for (unsigned caller = 0; caller < callers; ++caller)
    threads.emplace_back([&fs, fd, caller] {
      for (unsigned round = 1; round <= rounds; ++round)
        for (std::uint64_t at = caller; at < 256; at += callers) {
          auto const byte = std::byte(round + caller);
          if (fs.write(fd, &byte, 1, std::int64_t(at)) != 1) return;
        }
    });
  for (auto& t : threads) t.join();
  bytes seen(256);
  CHECK(fs.read(fd, seen.data(), seen.size(), 0) == 256);
  for (unsigned at = 0; at < 256; ++at) CHECK(seen[at] == std::byte(rounds + at % callers));
  CHECK(fs.close(fd) == 0);
}
