// gmmap, gmunmap, gmsync: which bytes are mapped and for how long, the fate of stores, and
// refusals.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;

/// One gmmap and what it gave.
struct map_op {
  std::int32_t fd;
  std::int32_t protection;
  std::uint64_t count;
  std::int64_t offset;
  std::int64_t result;
  std::byte* address;
};

/// One block maps them all, in order.
__global__ void map_each(fs_ref fs, map_op* ops, std::uint32_t count) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = 0; i < count; ++i) {
    void* address = nullptr;
    ssize_t const n =
        gmmap(io, ops[i].fd, ops[i].count, ops[i].offset, ops[i].protection, &address);
    if (threadIdx.x == 0) {
      ops[i].result = n;
      ops[i].address = static_cast<std::byte*>(address);
    }
  }
}

/// The first block maps pages, and a thread of its last warp passes each pointer on at once. The
/// second block unmaps it. Counts the calls that failed.
__global__ void pass_on_mappings(fs_ref fs, int fd, std::uint32_t rounds, std::uint64_t* passed,
                                 std::uint64_t* failed) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  atomic_ref<std::uint64_t, scope::device> pointer(*passed);
  __shared__ std::uint64_t taken;
  unsigned const last = blockDim.x - 1;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    if (blockIdx.x == 0) {
      void* address = nullptr;
      ssize_t const n = gmmap(io, fd, page, i % 4 * page, PROT_READ, &address);
      if (threadIdx.x == last) {
        if (n != static_cast<ssize_t>(page)) ++failed[0];
        pointer.store(reinterpret_cast<std::uint64_t>(address), memory_order_release);
        for (unsigned pause = 0; pointer.load(memory_order_acquire) != 0;) backoff(pause);
      }
      __syncthreads();
    } else {
      if (threadIdx.x == 0) {
        for (unsigned pause = 0; (taken = pointer.load(memory_order_acquire)) == 0;)
          backoff(pause, 64);
      }
      __syncthreads();
      int const result = gmunmap(io, reinterpret_cast<void const*>(taken));
      __syncthreads();
      if (threadIdx.x == 0) {
        if (result != 0) ++failed[1];
        pointer.store(0, memory_order_release);
      }
    }
  }
}

/// One block unmaps the pages at these addresses.
__global__ void unmap_each(fs_ref fs, map_op const* ops, std::uint32_t count,
                           std::int32_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = 0; i < count; ++i) {
    int const result = gmunmap(io, ops[i].address);
    if (threadIdx.x == 0) results[i] = result;
  }
}

__global__ void copy_mapped(map_op const* op, std::byte* out) {
  for (std::int64_t i = threadIdx.x; i < op->result; i += blockDim.x) out[i] = op->address[i];
}

/// Counts `more` mappings of the page at `address`, and their pins. It stands for as many gmmaps.
__global__ void count_mappings(fs_ref fs, std::byte const* address, std::uint32_t more) {
  auto const frame = static_cast<std::uint32_t>(io::frame_of(fs.cache, address));
  io::frame_mappings(fs, frame).fetch_add(more, memory_order_relaxed);
  cache::frame_state(fs.cache.headers[frame]).fetch_add(more, memory_order_relaxed);
}
__global__ void uncount_mappings(fs_ref fs, std::byte const* address, std::uint32_t less) {
  auto const frame = static_cast<std::uint32_t>(io::frame_of(fs.cache, address));
  io::frame_mappings(fs, frame).fetch_sub(less, memory_order_relaxed);
  cache::frame_state(fs.cache.headers[frame]).fetch_sub(less, memory_order_relaxed);
}

std::vector<map_op> map(filesystem const& fs, buffer<map_op>& ops) {
  launch(map_each, 1, 64, fs.ref(), ops.data(), std::uint32_t(ops.size()));
  return result_in(ops);
}

std::vector<std::int32_t> unmap(filesystem const& fs, buffer<map_op> const& ops) {
  auto results = zeroed<std::int32_t>(ops.size());
  launch(unmap_each, 1, 64, fs.ref(), ops.data(), std::uint32_t(ops.size()), results.data());
  return result_in(results);
}

std::vector<std::byte> bytes_at(buffer<map_op> const& op) {
  auto out = zeroed<std::byte>(page);
  launch(copy_mapped, 1, 64, op.data(), out.data());
  return result_in(out);
}

/// Reads the whole file through the cache.
__global__ void read_through(fs_ref fs, int fd, std::uint64_t bytes, std::byte* out,
                             std::uint64_t* failed) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint64_t at = 0; at < bytes; at += page) {
    if (gread(io, fd, out, page, std::int64_t(at)) <= 0 && threadIdx.x == 0) ++*failed;
  }
}

/// Each tile maps pages at random, looks at every byte, and unmaps them. The file has byte (page
/// number) * 5 + (place / 512) everywhere.
__global__ void look_through_maps(fs_ref fs, int fd, std::uint32_t pages, std::uint32_t rounds,
                                  std::uint64_t* wrong) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  io_context io(fs, tile);
  std::uint64_t random = blockIdx.x * 977 + threadIdx.x / 32 + 1;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    std::uint64_t const which = (random >> 33) % pages;
    void* address = nullptr;
    ssize_t const n = gmmap(io, fd, page, std::int64_t(which * page), PROT_READ, &address);
    bool bad = n != ssize_t(page);
    auto const* const at = static_cast<std::byte const*>(address);
    for (ssize_t i = tile.thread_rank(); i < n; i += 32)
      bad |= at[i] != std::byte(which * 5 + std::uint64_t(i) / 512);
    if (gmunmap(io, address) != 0) bad = true;
    if (bad) atomic_ref<std::uint64_t>(*wrong).fetch_add(1, memory_order_relaxed);
  }
}

/// Two blocks map one page for writing; each stores every other byte of a stretch and syncs its own
/// bytes only.
__global__ void store_through_map(fs_ref fs, int fd, int flags, std::int32_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  void* address = nullptr;
  ssize_t const n = gmmap(io, fd, page, 0, PROT_READ | PROT_WRITE, &address);
  auto* const at = static_cast<std::byte*>(address);
  std::int32_t result = n == ssize_t(page) ? 0 : -1;
  for (std::uint32_t i = 0; result == 0 && i < 20; ++i) {
    std::uint32_t const mine = 100 + 2 * i + blockIdx.x;
    if (threadIdx.x == 0) at[mine] = std::byte(mine);
    block.sync();
    result = gmsync(io, fd, at + mine, 1, flags);
  }
  if (threadIdx.x == 0) results[blockIdx.x] = result;
  gmunmap(io, address);
}

}  // namespace

TEST_CASE(
    "gmmap: a mapping ends with its page, with the file and with what was asked for; the bytes are "
    "the file's") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 2 * page + 100);
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDONLY);
  struct expectation {
    std::int64_t offset;
    std::uint64_t count;
    std::int64_t mapped;
  };
  for (auto const& e : std::vector<expectation>{{0, 10, 10},
                                                {0, 1 << 20, page},
                                                {100, page, page - 100},
                                                {page - 1, 10, 1},
                                                {2 * page, page, 100},
                                                {2 * page + 99, ~0ull, 1},
                                                {2 * page + 100, 1, 0},
                                                {1ll << 40, 1, 0}}) {
    auto ops = filled(std::vector<map_op>{{fd, PROT_READ, e.count, e.offset, 0, nullptr}});
    CAPTURE(e.offset);
    CHECK(map(fs, ops)[0].result == e.mapped);
    auto expected = pread_bytes(path, std::uint64_t(e.offset), std::uint64_t(e.mapped));
    expected.resize(page);
    CHECK(bytes_at(ops) == expected);
    CHECK(unmap(fs, ops)[0] == (e.mapped == 0 ? -EINVAL : 0));
  }
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.unreleased().empty());
}

TEST_CASE("gmmap: a page has up to 2^20 mappings; one more gets -ENOMEM, until one goes") {
  constexpr std::uint32_t most = 1u << 20;
  scratch_folder folder;
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(make_file(folder, "file", page), O_RDONLY);
  auto one = filled(std::vector<map_op>{{fd, PROT_READ, 1, 0, 0, nullptr}});
  std::byte* const address = map(fs, one)[0].address;
  REQUIRE(address != nullptr);
  launch(count_mappings, 1, 1, fs.ref(), static_cast<std::byte const*>(address), most - 2);
  CHECK(map(fs, one)[0].result == 1);
  CHECK(map(fs, one)[0].result == -ENOMEM);
  auto const mapped = filled(std::vector<map_op>{{fd, PROT_READ, 1, 0, 0, address}});
  CHECK(unmap(fs, mapped)[0] == 0);
  CHECK(map(fs, one)[0].result == 1);
  launch(uncount_mappings, 1, 1, fs.ref(), static_cast<std::byte const*>(address), most - 2);
  CHECK(unmap(fs, mapped)[0] == 0);
  CHECK(unmap(fs, mapped)[0] == 0);
  CHECK(unmap(fs, mapped)[0] == -EINVAL);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("gmmap: what cannot be mapped is refused") {
  scratch_folder folder;
  filesystem fs(small_config(page, 8));
  auto const path = make_file(folder, "file", page);
  int const reads = fs.open(path, O_RDONLY);
  int const writes = fs.open(path, O_WRONLY);
  auto ops = filled(std::vector<map_op>{{reads, PROT_READ | PROT_WRITE, 1, 0, 0, nullptr},
                                        {writes, PROT_READ, 1, 0, 0, nullptr},
                                        {writes, PROT_READ | PROT_WRITE, 1, 0, 0, nullptr},
                                        {reads, PROT_WRITE, 1, 0, 0, nullptr},
                                        {reads, PROT_NONE, 1, 0, 0, nullptr},
                                        {reads, PROT_READ, 0, 0, 0, nullptr},
                                        {reads, PROT_READ, 1, -1, 0, nullptr},
                                        {-1, PROT_READ, 1, 0, 0, nullptr}});
  std::vector<std::int64_t> results;
  for (auto const& op : map(fs, ops)) results.push_back(op.result);
  CHECK(results == std::vector<std::int64_t>{-EACCES, -EACCES, -EACCES, -EINVAL, -EINVAL, -EINVAL,
                                             -EINVAL, -EBADF});
  // Nothing is mapped, so nothing can be unmapped: neither null nor an address within the frames.
  auto nothing = filled(
      std::vector<map_op>{{0, 0, 0, 0, 0, nullptr}, {0, 0, 0, 0, 0, fs.ref().cache.frames + 100}});
  CHECK(unmap(fs, nothing) == std::vector<std::int32_t>{-EINVAL, -EINVAL});
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "gmmap: a mapped page stays while everything else is replaced, and goes when it is unmapped as "
    "often as it was mapped") {
  scratch_folder folder;
  constexpr std::uint64_t pages = 40;
  auto const path = make_file(folder, "file", pages * page);
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDONLY);
  auto ops = filled(std::vector<map_op>{{fd, PROT_READ, page, 3 * page, 0, nullptr},
                                        {fd, PROT_READ, page, 3 * page, 0, nullptr}});
  auto const mapped = map(fs, ops);
  CHECK(mapped[0].address == mapped[1].address);
  CHECK(fs.unreleased() == std::vector<std::string>{path + ": bytes 12288..16383, 2 gmmaps"});
  auto out = zeroed<std::byte>(page);
  auto failed = zeroed<std::uint64_t>(1);
  auto const read_all = [&] {
    launch(read_through, 1, 64, fs.ref(), fd, pages * page, out.data(), failed.data());
    CHECK(result_in(failed)[0] == 0);
  };
  read_all();
  CHECK(bytes_at(ops) == pread_bytes(path, 3 * page, page));
  auto one = filled(std::vector{mapped[0]});
  CHECK(unmap(fs, one)[0] == 0);
  read_all();
  CHECK(bytes_at(ops) == pread_bytes(path, 3 * page, page));
  CHECK(unmap(fs, one)[0] == 0);
  CHECK(unmap(fs, one)[0] == -EINVAL);
  read_all();
  CHECK(inspect(fs.ref()).pages.count(3) == 0);
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.stats().maps == 2);
  CHECK(fs.stats().unmaps == 2);
}

TEST_CASE(
    "gmmap: with every frame mapped the next one gets -ENOMEM, as does gread; after an unmap both "
    "go on") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 10 * page);
  auto settings = small_config(page, 8);
  settings.rpc_timeout_ms = 2000;
  filesystem fs(settings);
  int const fd = fs.open(path, O_RDONLY);
  std::vector<map_op> list;
  for (std::int64_t i = 0; i < 9; ++i)
    list.push_back({fd, PROT_READ, page, i * std::int64_t(page), 0, nullptr});
  auto ops = filled(list);
  auto const mapped = map(fs, ops);
  for (std::size_t i = 0; i < 8; ++i) CHECK(mapped[i].result == std::int64_t(page));
  CHECK(mapped[8].result == -ENOMEM);
  CHECK(fs.unreleased().size() == 8);
  auto first = filled(std::vector{mapped[0]});
  CHECK(unmap(fs, first)[0] == 0);
  auto again = filled(std::vector{list[8]});
  CHECK(map(fs, again)[0].result == std::int64_t(page));
  auto rest = filled(std::vector<map_op>{mapped[1], mapped[2], mapped[3], mapped[4], mapped[5],
                                         mapped[6], mapped[7], contents(again)[0]});
  CHECK(unmap(fs, rest) == std::vector<std::int32_t>(8, 0));
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "gmmap: 64 warps that map pages at random through 8 frames see the right bytes and all get "
    "on") {
  scratch_folder folder;
  constexpr std::uint32_t pages = 50;
  auto const path = folder / "file";
  {
    std::vector<std::byte> bytes(pages * page);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = std::byte(i / page * 5 + i % page / 512);
    int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(::write(fd, bytes.data(), bytes.size()) == ssize_t(bytes.size()));
    ::close(fd);
  }
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDONLY);
  auto wrong = zeroed<std::uint64_t>(1);
  unsigned const warps = scaled(64, 16);
  launch(look_through_maps, warps / 4, 128, fs.ref(), fd, pages, scaled(40, 10), wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("gmmap: another block may unmap a page as soon as any thread has the pointer") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * page);
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDONLY);
  auto passed = zeroed<std::uint64_t>(1), failed = zeroed<std::uint64_t>(2);
  launch(pass_on_mappings, 2, 64, fs.ref(), fd, scaled(40'000, 4000), passed.data(), failed.data());
  CHECK(result_in(failed) == std::vector<std::uint64_t>{0, 0});
  CHECK(fs.unreleased().empty());
}

TEST_CASE(
    "gmsync: exactly the bytes that were named reach the file, beside those that others write to "
    "the page") {
  for (int const flags : {MS_ASYNC, MS_SYNC}) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", page);
    auto expected = pread_bytes(path, 0, page);
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDWR);
    auto results = zeroed<std::int32_t>(2);
    int const host = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    std::byte const theirs[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
    CHECK(::pwrite(host, theirs, 3, 50) == 3);
    ::close(host);
    launch(store_through_map, 2, 32, fs.ref(), fd, flags, results.data());
    CHECK(result_in(results) == std::vector<std::int32_t>{0, 0});
    for (unsigned i = 100; i < 140; ++i) expected[i] = std::byte(i);
    std::copy(theirs, theirs + 3, expected.begin() + 50);
    if (flags == MS_SYNC) CHECK(pread_bytes(path, 0, page) == expected);
    CHECK(fs.close(fd) == 0);
    CHECK(pread_bytes(path, 0, page) == expected);
    CHECK(inspect(fs.ref()).problems == "");
  }
}
