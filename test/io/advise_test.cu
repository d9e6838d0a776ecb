// gfadvise and filesystem::advise: advice about whole files, which reads follow it, and refusals.
#include <gpufs/gpufs.hpp>

#include <test/support/advice.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

// Two contexts of a block. `reader` reads `reads` pieces, each at `distance` behind the one before;
// then `speaker` advises; then `reader` goes on for as many. requests[0], [1]: read requests, of
// all callers, when the first and the second half were done.
__global__ void advise_beside_a_reader(fs_ref fs, int fd, unsigned reads, std::uint64_t piece,
                                       std::uint64_t distance, advice what, std::byte* out,
                                       std::uint64_t* requests, std::int32_t* errors) {
  auto const block = cg::this_thread_block();
  io_context reader(fs, block);
  io_context speaker(fs, block);
  auto const read_requests = [&] {
    std::uint64_t n = 0;
    for (unsigned s = 0; s < handle::counter_stripes; ++s) {
      n += atomic_ref<std::uint64_t, scope::device>(
               fs.counters[s * handle::counters_per_stripe +
                           unsigned(handle::counter::read_requests)])
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

halves advise_beside(filesystem& fs, int fd, unsigned reads, std::uint64_t piece,
                     std::uint64_t distance, advice what) {
  buffer<std::byte> out(piece);
  auto requests = zeroed<std::uint64_t>(2);
  auto errors = zeroed<std::int32_t>(1);
  launch(advise_beside_a_reader, 1, 64, fs.ref(), fd, reads, piece, distance, what, out.data(),
         requests.data(), errors.data());
  this_thread_stream().synchronize();
  auto const n = contents(requests);
  return {n[0], n[1] - n[0], contents(errors)[0]};
}

// Reads one piece, says so, waits to be told to go on, and reads `reads` more, each `distance`
// behind the one before.
__global__ void read_around_a_pause(fs_ref fs, int fd, unsigned reads, std::uint64_t piece,
                                    std::uint64_t distance, std::uint32_t* paused,
                                    std::uint32_t* go_on, std::byte* out, std::int32_t* errors) {
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

struct advice_op {
  std::int64_t offset, length;
  std::int32_t fd, what;
};

// Block b gives the advice b, b + blocks, ...
__global__ void give_advice(fs_ref fs, advice_op const* ops, std::uint32_t count,
                            std::uint32_t* refused) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    int const result = gfadvise(io, ops[i].fd, ops[i].offset, ops[i].length, advice(ops[i].what));
    if (threadIdx.x == 0 && result != 0)
      atomic_ref<std::uint32_t>(*refused).fetch_add(1, memory_order_relaxed);
  }
}

std::uint64_t noted(filesystem const& fs, int fd) {
  return atomic_ref<std::uint64_t, scope::system>(
             fs.ref().link.shared.open_files[rpc::descriptor_index(fd)].advice)
      .load(memory_order_acquire);
}

config with_prefetch(std::uint64_t prefetch) {
  auto c = small_config(4 * kibi, 1024);
  c.prefetch_size = prefetch;
  c.registered_memory = 0;  // else what is read at random is asked for only until it is registered
  return c;
}

}  // namespace

TEST_CASE(
    "advice random: requests cover what is read and nothing else, whatever the prefetch size") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 2 * mebi);
  for (auto const prefetch : {60 * kibi, 252 * kibi, prefetch_automatic}) {
    for (std::uint64_t const piece : {4 * kibi, 32 * kibi}) {
      filesystem fs(with_prefetch(prefetch));
      int const fd = fs.open(path, O_RDONLY);
      CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
      read_batch batch;
      for (std::uint64_t at = 0; at < 2 * mebi; at += piece)
        batch.add(fd, path, std::int64_t(at), piece);
      batch.run(fs.ref(), 1, 64);
      CAPTURE(prefetch);
      CAPTURE(piece);
      CHECK(batch.problems() == "");
      CHECK(fs.stats().read_requests == 2 * mebi / piece);
      CHECK(fs.stats().host_bytes == 2 * mebi);
    }
  }
}

TEST_CASE("advice random: a long read has its own bytes read once, in any number of batches") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 2 * mebi);
  for (auto const prefetch : {252 * kibi, prefetch_automatic}) {
    for (std::uint64_t const page : {std::uint64_t(512), kibi, 4 * kibi}) {
      auto c = with_prefetch(prefetch);
      c.page_size = page;
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
      read_batch batch;
      for (unsigned i = 0; i < 8; ++i)  // no constant distance
        batch.add(fd, path, std::int64_t(i * 3 % 8 * 256 * kibi), 256 * kibi);
      batch.run(fs.ref(), 1, 64);
      CAPTURE(prefetch);
      CAPTURE(page);
      CHECK(batch.problems() == "");
      fs.stop();  // answers what was still on its way
      CHECK(fs.stats().host_bytes == 2 * mebi);
    }
  }
}

TEST_CASE("advice sequential: the first read of a file already has the full depth ahead of it") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * mebi);
  for (auto const what : {advice::normal, advice::sequential}) {
    filesystem fs(with_prefetch(prefetch_automatic));
    int const fd = fs.open(path, O_RDONLY);
    CHECK(fs.advise(fd, 0, 0, what) == 0);
    CHECK(missing(fs, fd, path, mebi, 4 * kibi) == 1);
    // Alone, a context may have 30 chunks ahead, of which the rest of the one it reads from is the
    // first.
    CHECK(fs.stats().read_requests == (what == advice::sequential ? 30 : 1));
  }
}

TEST_CASE(
    "gfadvise: a context that is reading the file follows another's advice from its next miss on") {
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

TEST_CASE(
    "advice of the host: a context that is reading the file follows it after at most 64 batches of "
    "misses") {
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
  launch(read_around_a_pause, 1, 64, fs.ref(), fd, reads, 4 * kibi, mebi, flags.data(),
         flags.data() + 1, out.data(), errors.data());
  // Pairs with the release in the kernel.
  wait_until(
      [&] {
        return atomic_ref<std::uint32_t, scope::system>(flags[0]).load(memory_order_acquire) == 1;
      },
      "the pause");
  CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
  atomic_ref<std::uint32_t, scope::system>(flags[1]).store(1, memory_order_release);
  this_thread_stream().synchronize();
  CHECK(contents(errors)[0] == 0);
  CHECK(fs.stats().host_bytes <= 65 * 64 * kibi + (reads - 64) * 4 * kibi);
}

TEST_CASE(
    "advice: it holds for all who share the descriptor, the last one counts, and it ends with the "
    "last close") {
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
  for (unsigned i = 0; i < 64; ++i)
    fds.push_back(fs.open(make_file(folder, std::to_string(i), 10), O_RDONLY));
  for (int const f : fds) CHECK(noted(fs, f) == std::uint64_t(advice::normal));
}

TEST_CASE(
    "gfadvise: whatever is advised while others read, they read the right bytes and nothing is "
    "left behind") {
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
        std::uint64_t const at =
            i % 3 == 0 ? random() % 300'000 : std::uint64_t(i) * 1500 % 300'000;
        batch.add(fd, path, std::int64_t(at), random() % 10'000, unsigned(random() % 64));
      }
      std::vector<advice_op> ops(scaled(200, 50));
      for (auto& op : ops) {
        op = {std::int64_t(random() % 300'000),
              std::int64_t(random() % 4 == 0 ? 0 : random() % 100'000), fd,
              std::int32_t(random() % 5)};
      }
      buffer<advice_op> device_ops(ops.size());
      device_ops.copy_from_host(ops.data(), ops.size());
      auto refused = zeroed<std::uint32_t>(1);
      stream other;
      batch.start(fs.ref(), 4, 64);
      launch(launch_options{.grid = 2, .block = 64, .on = &other}, give_advice, fs.ref(),
             device_ops.data(), std::uint32_t(ops.size()), refused.data());
      for (auto const what :
           {advice::random, advice::willneed, advice::dontneed, advice::sequential, advice::normal})
        CHECK(fs.advise(fd, 1000, 100'000, what) == 0);
      other.synchronize();
      batch.finish();
      CHECK(batch.problems() == "");
      CHECK(contents(refused)[0] == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
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
      {fd, 0, 0, 5, -EINVAL},           {fd, 0, 0, -1, -EINVAL},   {fd, 0, 0, 1 << 20, -EINVAL},
      {fd, -1, 0, 1, -EINVAL},          {fd, 0, -1, 2, -EINVAL},   {fd, -1, 0, 3, -EINVAL},
      {fd, 0, -5, 4, -EINVAL},          {closed, 0, 0, 0, -EBADF}, {closed, 0, 0, 3, -EBADF},
      {closed, 0, 0, 4, -EBADF},        {-1, 0, 0, 1, -EBADF},     {0, 0, 0, 2, -EBADF},
      {fd, 1ll << 62, 1ll << 62, 3, 0}, {fd, 1ll << 62, 0, 4, 0},  {fd, 0, INT64_MAX, 3, 0},
      {fd, 50, INT64_MAX, 4, 0},
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
