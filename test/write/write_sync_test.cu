// What gfsync has acknowledged is in the host file, while all blocks write and the host writes back
// in the background.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;
constexpr std::uint32_t pages = 40;
constexpr std::uint32_t blocks = 6;
constexpr std::uint32_t rounds = scaled(12, 5);

// In each round, block b writes its number of the round to its word in some pages, and then calls
// gfsync. `done` says up to which round this has succeeded. Pages are shared by all blocks. Which
// pages a block writes in a round follows from `seed`.
GPUFS_HOST_DEVICE inline bool writes_in(std::uint64_t seed, std::uint32_t block,
                                        std::uint32_t round, std::uint32_t at) {
  return base::mix64(seed ^ (std::uint64_t(block) << 40 | std::uint64_t(round) << 20 | at)) % 3 ==
         0;
}

__global__ void write_and_sync(fs_ref fs, int fd, std::uint64_t seed, std::uint32_t* done,
                               std::uint32_t* failures) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  __shared__ std::uint32_t word[1];
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    if (threadIdx.x == 0) word[0] = round;
    __syncthreads();
    std::uint32_t failed = 0;
    for (std::uint32_t at = 0; at < pages; ++at) {
      if (!writes_in(seed, blockIdx.x, round, at)) continue;
      std::int64_t const offset = at * page + blockIdx.x * sizeof(word);
      failed += gwrite(io, fd, word, sizeof(word), offset) != sizeof(word) ? 1 : 0;
    }
    failed += gfsync(io, fd) != 0 ? 1 : 0;
    if (threadIdx.x == 0) {
      if (failed != 0)
        atomic_ref<std::uint32_t, scope::system>(*failures).fetch_add(failed, memory_order_relaxed);
      atomic_ref<std::uint32_t, scope::system>(done[blockIdx.x]).store(round, memory_order_release);
    }
    __syncthreads();
  }
}

// The round whose number the block's word of the page must have, or a later one, after `round`.
std::uint32_t newest(std::uint64_t seed, std::uint32_t block, std::uint32_t round,
                     std::uint32_t at) {
  while (round > 0 && !writes_in(seed, block, round, at)) --round;
  return round;
}

}  // namespace

TEST_CASE("gfsync: no gwrite that returned before it is missing in the host file") {
  CAPTURE(seed());
  for (std::uint64_t const write_memory : {4096, 16384, 32768}) {
    CAPTURE(write_memory);
    scratch_folder folder;
    auto const path = make_file(folder, "file", pages * page, 0);
    write_bytes(path, std::vector<std::byte>(pages * page));
    auto c = small_config(page, 128);
    c.write_memory = write_memory;
    c.host_threads = 3;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDWR);
    pinned_buffer<std::uint32_t> done(blocks + 1);
    for (std::uint32_t b = 0; b <= blocks; ++b) done.data()[b] = 0;
    launch(write_and_sync, blocks, 64, fs.ref(), fd, seed(), done.data(), done.data() + blocks);
    int const host = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(host >= 0);
    std::uint64_t missing = 0, unread = 0;
    for (bool last = false; !last;) {
      last = true;
      for (std::uint32_t b = 0; b < blocks; ++b) {
        auto const round =
            std::atomic_ref<std::uint32_t>(done.data()[b]).load(std::memory_order_acquire);
        last = last && round == rounds;
        for (std::uint32_t at = 0; at < pages; ++at) {
          std::uint32_t word = 0;
          bool const read = ::pread(host, &word, sizeof(word),
                                    off_t(at * page + b * sizeof(word))) == ssize_t(sizeof(word));
          unread += read ? 0 : 1;
          missing += word < newest(seed(), b, round, at) ? 1 : 0;
        }
      }
    }
    ::close(host);
    this_thread_stream().synchronize();
    CHECK(unread == 0);
    CHECK(missing == 0);
    CHECK(done.data()[blocks] == 0);
    CHECK(fs.unwritten().empty());
    CHECK(fs.close(fd) == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}
