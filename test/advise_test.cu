// gfadvise and filesystem::advise: what each advice changes, for whom, and what it leaves alone.
#include <doctest/doctest.h>

#include <gpufs/gpufs.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using daemon::fault_action;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

template <class Group>
__device__ void say(fs_ref const& fs, Group const& group, int fd, std::int64_t offset, std::int64_t length, advice what,
                    std::int32_t* results) {
  io_context<Group> io(fs, group);
  int const result = gfadvise(io, fd, offset, length, what);
  // Every thread gets the result.
  atomic_ref<std::int32_t> sum(results[1]);
  sum.fetch_add(result, memory_order_relaxed);
  if (group.thread_rank() == 0) results[0] = result;
}

__global__ void advise_by_block(fs_ref fs, int fd, std::int64_t offset, std::int64_t length, advice what, std::int32_t* results) {
  say(fs, cg::this_thread_block(), fd, offset, length, what, results);
}

__global__ void advise_by_tile(fs_ref fs, int fd, std::int64_t offset, std::int64_t length, advice what, std::int32_t* results) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  if (threadIdx.x < 32) say(fs, tile, fd, offset, length, what, results);
}

int advise_in_kernel(fs_ref const& fs, int fd, std::int64_t offset, std::int64_t length, advice what,
                     caller_kind who = caller_kind::block, unsigned threads = 64) {
  auto results = zeroed<std::int32_t>(2);
  launch(who == caller_kind::block ? advise_by_block : advise_by_tile, 1, threads, fs, fd, offset, length, what, results.data());
  this_thread_stream().synchronize();
  auto const got = contents(results);
  CHECK(got[1] == got[0] * int(who == caller_kind::block ? threads : 32));
  return got[0];
}

/// Pages of `page` bytes that a read of [offset, offset + count) finds missing.
std::uint64_t missing(filesystem& fs, int fd, std::string const& path, std::uint64_t offset, std::uint64_t count) {
  read_batch batch;
  batch.add(fd, path, std::int64_t(offset), count);
  auto const before = fs.stats();
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  return (fs.stats() - before).misses;
}

// Two contexts of a block. `reader` reads `reads` pieces, each at `distance` behind the one before; then `speaker` advises; then `reader`
// goes on for as many. requests[0], [1]: read requests, of all callers, when the first and the second half were done.
__global__ void advise_beside_a_reader(fs_ref fs, int fd, unsigned reads, std::uint64_t piece, std::uint64_t distance,
                                       advice what, std::byte* out, std::uint64_t* requests, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context reader(fs, block);
  io_context speaker(fs, block);
  auto const read_requests = [&] {
    std::uint64_t n = 0;
    for (unsigned s = 0; s < counter_stripes; ++s) {
      n += atomic_ref<std::uint64_t, scope::device>(fs.counters[s * counters_per_stripe + unsigned(counter::read_requests)])
               .load(memory_order_relaxed);
    }
    return n;
  };
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned i = 0; i < reads; ++i) {
      ssize_t const n = gread(reader, fd, out, piece, std::int64_t((half * reads + i) * distance));
      if (threadIdx.x == 0 && n != ssize_t(piece)) ++*errors;
    }
    __syncthreads();
    if (threadIdx.x == 0) requests[half] = read_requests();
    if (half == 0) {
      int const result = gfadvise(speaker, fd, 0, 0, what);
      if (threadIdx.x == 0 && result != 0) ++*errors;
    }
  }
}

struct halves {
  std::uint64_t before, after;
  std::int32_t errors;
};

halves advise_beside(filesystem& fs, int fd, unsigned reads, std::uint64_t piece, std::uint64_t distance, advice what) {
  buffer<std::byte> out(piece);
  auto requests = zeroed<std::uint64_t>(2);
  auto errors = zeroed<std::int32_t>(1);
  launch(advise_beside_a_reader, 1, 64, fs.ref(), fd, reads, piece, distance, what, out.data(), requests.data(), errors.data());
  this_thread_stream().synchronize();
  auto const n = contents(requests);
  return {n[0], n[1] - n[0], contents(errors)[0]};
}

// Reads one piece, says so, waits to be told to go on, and reads `reads` more, each `distance` behind the one before.
__global__ void read_around_a_pause(fs_ref fs, int fd, unsigned reads, std::uint64_t piece, std::uint64_t distance,
                                    std::uint32_t* paused, std::uint32_t* go_on, std::byte* out, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (unsigned i = 0; i <= reads; ++i) {
    ssize_t const n = gread(io, fd, out, piece, std::int64_t(i * distance));
    if (threadIdx.x == 0 && n != ssize_t(piece)) ++*errors;
    if (i == 0 && threadIdx.x == 0) {
      atomic_ref<std::uint32_t, scope::system>(*paused).store(1, memory_order_release);
      wait_for(*go_on, 1);
    }
    __syncthreads();
  }
}

// Reads a page, keeps the frame pinned while it advises against it, and looks whether it is there still.
__global__ void advise_against_a_pinned_page(fs_ref fs, int fd, std::uint64_t uid, std::uint64_t page, std::uint32_t* there) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  lookup held{};
  if (threadIdx.x < 32) held = find_and_pin(fs.cache, uid, page);
  int const result = gfadvise(io, fd, 0, 0, advice::dontneed);
  if (threadIdx.x < 32) {
    lookup const again = find_and_pin(fs.cache, uid, page);
    if (threadIdx.x == 0) {
      *there =
          result == 0 && held.result == lookup_result::hit && again.result == lookup_result::hit && again.frame == held.frame;
      unpin(fs.cache.headers[held.frame]);
      unpin(fs.cache.headers[again.frame]);
    }
  }
}

struct advice_op {
  std::int64_t offset, length;
  std::int32_t fd, what;
};

// Block b gives the advice b, b + blocks, ...
__global__ void give_advice(fs_ref fs, advice_op const* ops, std::uint32_t count, std::uint32_t* refused) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    int const result = gfadvise(io, ops[i].fd, ops[i].offset, ops[i].length, advice(ops[i].what));
    if (threadIdx.x == 0 && result != 0) atomic_ref<std::uint32_t>(*refused).fetch_add(1, memory_order_relaxed);
  }
}

std::uint64_t noted(filesystem const& fs, int fd) {
  return atomic_ref<std::uint64_t, scope::system>(fs.ref().shared.open_files[rpc::descriptor_index(fd)].advice)
      .load(memory_order_acquire);
}

config with_prefetch(std::uint64_t prefetch) {
  auto c = small_config(4 * kibi, 1024);
  c.prefetch_size = prefetch;
  return c;
}

}  // namespace

TEST_CASE("gfadvise willneed: the range's pages are in the cache when it returns, and no others") {
  scratch_folder folder;
  for (std::uint64_t const page : {std::uint64_t{512}, 4 * kibi, 64 * kibi}) {
    auto const path = make_file(folder, std::to_string(page), 40 * page + 100);
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      auto c = small_config(page, 64);
      c.staging_size = 8 * mebi;
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      CAPTURE(page);
      CAPTURE(int(who));
      CHECK(advise_in_kernel(fs.ref(), fd, std::int64_t(3 * page + 7), std::int64_t(10 * page), advice::willneed, who) == 0);
      CHECK(inspect(fs.ref()).ready == 11);
      CHECK(inspect(fs.ref()).problems == "");
      auto const s = fs.stats();
      CHECK(s.bytes_delivered == 0);
      CHECK(s.host_bytes == 11 * page);
      CHECK(missing(fs, fd, path, 3 * page, 11 * page) == 0);
      CHECK(missing(fs, fd, path, 2 * page, page) == 1);
      CHECK(missing(fs, fd, path, 14 * page, page) == 1);
      CHECK(advise_in_kernel(fs.ref(), fd, std::int64_t(20 * page), 0, advice::willneed, who) == 0);
      CHECK(missing(fs, fd, path, 20 * page, 21 * page) == 0);
      CHECK(advise_in_kernel(fs.ref(), fd, std::int64_t(50 * page), 0, advice::willneed, who) == 0);
    }
  }
}

TEST_CASE("gfadvise willneed: of a range larger than the cache the first pages come, with and without readahead") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 200 * 4 * kibi);
  for (auto const prefetch : {std::uint64_t{0}, 60 * kibi, prefetch_automatic}) {
    auto c = small_config(4 * kibi, 32);
    c.prefetch_size = prefetch;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    CAPTURE(prefetch);
    CHECK(advise_in_kernel(fs.ref(), fd, 8 * kibi, 0, advice::willneed) == 0);
    CHECK(fs.stats().misses == 32);
    CHECK(fs.stats().evictions == 0);
    CHECK(missing(fs, fd, path, 8 * kibi, 32 * 4 * kibi) == 0);
  }
}

TEST_CASE("gfadvise willneed: a page that cannot be read is reported") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  filesystem fs(small_config(512, 32), read_faults([](std::uint64_t offset, std::uint64_t) {
                  return offset == 5 * 512 ? fault_action::fail(EIO) : fault_action::pass();
                }));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::willneed) == -EIO);
  CHECK(advise_in_kernel(fs.ref(), fd, 6 * 512, 0, advice::willneed) == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("gfadvise dontneed: whole pages of the range go, those cut by its ends and those of other files stay") {
  scratch_folder folder;
  // With 64 frames most ranges are looked for frame by frame, with 2048 page by page.
  for (std::uint64_t const frames : {64, 2048}) {
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      CAPTURE(frames);
      CAPTURE(int(who));
      auto const path = make_file(folder, "file", 20 * 512 + 5, 1);
      auto const other = make_file(folder, "other", 8 * 512, 2);
      filesystem fs(small_config(512, frames));
      int const fd = fs.open(path, O_RDONLY);
      int const fd2 = fs.open(other, O_RDONLY);
      CHECK(missing(fs, fd, path, 0, 21 * 512) == 21);
      CHECK(missing(fs, fd2, other, 0, 8 * 512) == 8);
      CHECK(advise_in_kernel(fs.ref(), fd, 3 * 512 + 1, 5 * 512, advice::dontneed, who) == 0);
      CHECK(inspect(fs.ref()).problems == "");
      CHECK(inspect(fs.ref()).ready == 29 - 4);
      CHECK(missing(fs, fd, path, 0, 4 * 512) == 0);
      CHECK(missing(fs, fd, path, 8 * 512, 13 * 512) == 0);
      CHECK(missing(fs, fd, path, 4 * 512, 4 * 512) == 4);
      CHECK(advise_in_kernel(fs.ref(), fd, 20 * 512, 5, advice::dontneed, who) == 0);  // all there is of the last page
      CHECK(missing(fs, fd, path, 20 * 512, 5) == 1);
      CHECK(advise_in_kernel(fs.ref(), fd, 20 * 512, 4, advice::dontneed, who) == 0);
      CHECK(missing(fs, fd, path, 20 * 512, 5) == 0);
      CHECK(advise_in_kernel(fs.ref(), fd, 512, 511, advice::dontneed, who) == 0);
      CHECK(advise_in_kernel(fs.ref(), fd, 1 << 20, 0, advice::dontneed, who) == 0);
      CHECK(inspect(fs.ref()).ready == 29);
      CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::dontneed, who) == 0);
      CHECK(inspect(fs.ref()).ready == 8);
      CHECK(inspect(fs.ref()).problems == "");
      CHECK(missing(fs, fd2, other, 0, 8 * 512) == 0);
    }
  }
}

TEST_CASE("gfadvise dontneed: a page that somebody has pinned stays") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  filesystem fs(small_config(512, 64));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(missing(fs, fd, path, 0, 20 * 512) == 20);
  auto there = zeroed<std::uint32_t>(1);
  std::uint64_t const uid = fs.ref().shared.open_files[rpc::descriptor_index(fd)].uid;
  launch(advise_against_a_pinned_page, 1, 64, fs.ref(), fd, uid, std::uint64_t(7), there.data());
  this_thread_stream().synchronize();
  CHECK(contents(there)[0] == 1);
  CHECK(inspect(fs.ref()).ready == 1);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("advice random: requests cover what is read and nothing else, whatever the prefetch size") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 2 * mebi);
  for (auto const prefetch : {60 * kibi, 252 * kibi, prefetch_automatic}) {
    for (std::uint64_t const piece : {4 * kibi, 32 * kibi}) {
      filesystem fs(with_prefetch(prefetch));
      int const fd = fs.open(path, O_RDONLY);
      CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
      read_batch batch;
      for (std::uint64_t at = 0; at < 2 * mebi; at += piece) batch.add(fd, path, std::int64_t(at), piece);
      batch.run(fs.ref(), 1, 64);
      CAPTURE(prefetch);
      CAPTURE(piece);
      CHECK(batch.problems() == "");
      CHECK(fs.stats().read_requests == 2 * mebi / piece);
      CHECK(fs.stats().host_bytes == 2 * mebi);
    }
  }
}

TEST_CASE("advice sequential: the first read of a file already has the whole window ahead of it") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * mebi);
  for (auto const what : {advice::normal, advice::sequential}) {
    filesystem fs(with_prefetch(prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    CHECK(fs.advise(fd, 0, 0, what) == 0);
    CHECK(missing(fs, fd, path, mebi, 4 * kibi) == 1);
    // Alone, a context may have 30 chunks ahead, of which the rest of the one it reads from is the first.
    CHECK(fs.stats().read_requests == (what == advice::sequential ? 30 : 1));
  }
}

TEST_CASE("gfadvise: a context that is reading the file follows another's advice from its next miss on") {
  scratch_folder folder;
  auto const path = folder / "file";
  set_size(path, 64 * mebi);
  {
    filesystem fs(with_prefetch(60 * kibi));
    int const fd = fs.open(path, O_RDONLY);
    auto const r = advise_beside(fs, fd, 128, 4 * kibi, 4 * kibi, advice::random);
    CHECK(r.errors == 0);
    CHECK(r.before <= 10);       // 512 KiB in requests of 64 KiB, and what is ahead
    CHECK(r.after >= 128 - 32);  // single pages, but for those that were ahead
  }
  {
    filesystem fs(with_prefetch(prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fs.advise(fd, 0, 0, advice::random) == 0);
    auto const r = advise_beside(fs, fd, 128, 4 * kibi, 4 * kibi, advice::normal);
    CHECK(r.errors == 0);
    CHECK(r.before == 128);
    CHECK(r.after <= 40);  // 512 KiB in chunks of 64 KiB, and 30 ahead
  }
}

TEST_CASE("advice of the host: a context that is reading the file follows it after at most 64 batches of misses") {
  scratch_folder folder;
  auto const path = folder / "file";
  set_size(path, 256 * mebi);
  filesystem fs(with_prefetch(60 * kibi));
  int const fd = fs.open(path, O_RDONLY);
  buffer<std::byte> out(4 * kibi);
  pinned_buffer<std::uint32_t> flags(2);
  flags.fill_zero();
  auto errors = zeroed<std::int32_t>(1);
  constexpr unsigned reads = 200;
  launch(read_around_a_pause, 1, 64, fs.ref(), fd, reads, 4 * kibi, mebi, flags.data(), flags.data() + 1, out.data(),
         errors.data());
  // Pairs with the release in the kernel.
  wait_until([&] { return atomic_ref<std::uint32_t, scope::system>(flags[0]).load(memory_order_acquire) == 1; }, "the pause");
  CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
  atomic_ref<std::uint32_t, scope::system>(flags[1]).store(1, memory_order_release);
  this_thread_stream().synchronize();
  CHECK(contents(errors)[0] == 0);
  CHECK(fs.stats().host_bytes <= 65 * 64 * kibi + (reads - 64) * 4 * kibi);
}

TEST_CASE("advice: it holds for all who share the descriptor, the last one counts, and it ends with the last close") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100);
  filesystem fs(small_config(512, 32));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(noted(fs, fd) == std::uint64_t(advice::normal));
  CHECK(advise_in_kernel(fs.ref(), fd, 10, 20, advice::random) == 0);
  CHECK(noted(fs, fd) == std::uint64_t(advice::random));
  CHECK(fs.open(path, O_RDONLY) == fd);
  CHECK(noted(fs, fd) == std::uint64_t(advice::random));
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::willneed) == 0);
  CHECK(fs.advise(fd, 0, 0, advice::dontneed) == 0);
  CHECK(noted(fs, fd) == std::uint64_t(advice::random));
  CHECK(fs.advise(fd, 0, 0, advice::sequential) == 0);
  CHECK(noted(fs, fd) == std::uint64_t(advice::sequential));
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::normal, caller_kind::tile) == 0);
  CHECK(noted(fs, fd) == std::uint64_t(advice::normal));
  CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(noted(fs, fd) == std::uint64_t(advice::random));
  CHECK(fs.close(fd) == 0);
  std::vector<int> fds;
  for (unsigned i = 0; i < 64; ++i) fds.push_back(fs.open(make_file(folder, std::to_string(i), 10), O_RDONLY));
  for (int const f : fds) CHECK(noted(fs, f) == std::uint64_t(advice::normal));
}

TEST_CASE("gfadvise: whatever is advised while others read, they read the right bytes and nothing is left behind") {
  scratch_folder folder;
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  auto const path = make_file(folder, "file", 300'000);
  for (auto const policy : {replacement::lra, replacement::clock}) {
    for (auto const prefetch : {std::uint64_t{0}, 12 * kibi, prefetch_automatic}) {
      auto c = small_config(4 * kibi, 40);
      c.policy = policy;
      c.prefetch_size = prefetch;
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      read_batch batch;
      for (unsigned i = 0; i < scaled(300, 80); ++i) {
        std::uint64_t const at = i % 3 == 0 ? random() % 300'000 : std::uint64_t(i) * 1500 % 300'000;
        batch.add(fd, path, std::int64_t(at), random() % 10'000, unsigned(random() % 64));
      }
      std::vector<advice_op> ops(scaled(200, 50));
      for (auto& op : ops) {
        op = {std::int64_t(random() % 300'000), std::int64_t(random() % 4 == 0 ? 0 : random() % 100'000), fd,
              std::int32_t(random() % 5)};
      }
      buffer<advice_op> device_ops(ops.size());
      device_ops.copy_from_host(ops.data(), ops.size());
      auto refused = zeroed<std::uint32_t>(1);
      stream other;
      batch.start(fs.ref(), 4, 64);
      launch(launch_options{.grid = 2, .block = 64, .on = &other}, give_advice, fs.ref(), device_ops.data(),
             std::uint32_t(ops.size()), refused.data());
      for (auto const what : {advice::random, advice::willneed, advice::dontneed, advice::sequential, advice::normal})
        CHECK(fs.advise(fd, 1000, 100'000, what) == 0);
      other.synchronize();
      batch.finish();
      CHECK(batch.problems() == "");
      CHECK(contents(refused)[0] == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("filesystem::advise: willneed and dontneed leave the pages in GPU memory alone") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * 512);
  filesystem fs(small_config(512, 64));
  int const fd = fs.open(path, O_RDONLY);
  CHECK(missing(fs, fd, path, 0, 10 * 512) == 10);
  CHECK(fs.advise(fd, 0, 0, advice::willneed) == 0);
  CHECK(inspect(fs.ref()).ready == 10);
  CHECK(fs.advise(fd, 0, 0, advice::dontneed) == 0);
  CHECK(missing(fs, fd, path, 0, 20 * 512) == 10);
}

TEST_CASE("advice: what makes no sense is refused, on the device as on the host") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100);
  filesystem fs(small_config(512, 32));
  int const fd = fs.open(path, O_RDONLY);
  auto const closed = fs.open(make_file(folder, "other", 100), O_RDONLY);
  REQUIRE(fs.close(closed) == 0);
  struct {
    int fd;
    std::int64_t offset, length;
    int what;
    int result;
  } const rows[] = {
      {fd, 0, 0, 5, -EINVAL},           {fd, 0, 0, -1, -EINVAL},   {fd, 0, 0, 1 << 20, -EINVAL}, {fd, -1, 0, 1, -EINVAL},
      {fd, 0, -1, 2, -EINVAL},          {fd, -1, 0, 3, -EINVAL},   {fd, 0, -5, 4, -EINVAL},      {closed, 0, 0, 0, -EBADF},
      {closed, 0, 0, 3, -EBADF},        {closed, 0, 0, 4, -EBADF}, {-1, 0, 0, 1, -EBADF},        {0, 0, 0, 2, -EBADF},
      {fd, 1ll << 62, 1ll << 62, 3, 0}, {fd, 1ll << 62, 0, 4, 0},  {fd, 0, INT64_MAX, 3, 0},     {fd, 50, INT64_MAX, 4, 0},
  };
  for (auto const& r : rows) {
    CAPTURE(r.fd);
    CAPTURE(r.offset);
    CAPTURE(r.length);
    CAPTURE(r.what);
    CHECK(advise_in_kernel(fs.ref(), r.fd, r.offset, r.length, advice(r.what)) == r.result);
    CHECK(fs.advise(r.fd, r.offset, r.length, advice(r.what)) == r.result);
  }
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::random, caller_kind::block, 31) == -EINVAL);
  CHECK(noted(fs, fd) == std::uint64_t(advice::normal));
  fs.stop();
  CHECK(advise_in_kernel(fs.ref(), fd, 0, 0, advice::random) == -EIO);
}
