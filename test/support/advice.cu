// The kernel and the read behind support/advice.hpp.
#include <gpufs/gpufs.hpp>

#include <test/support/advice.hpp>
#include <test/support/device_buffers.hpp>

#include <doctest/doctest.h>

namespace gpufs::test {

namespace cg = cooperative_groups;

namespace {

template <class Group>
__device__ void say(fs_ref const& fs, Group const& group, int fd, std::int64_t offset,
                    std::int64_t length, advice what, std::int32_t* results) {
  io_context<Group> io(fs, group);
  int const result = gfadvise(io, fd, offset, length, what);
  // Every thread gets the result.
  atomic_ref<std::int32_t> sum(results[1]);
  sum.fetch_add(result, memory_order_relaxed);
  if (group.thread_rank() == 0) results[0] = result;
}

__global__ void advise_by_block(fs_ref fs, int fd, std::int64_t offset, std::int64_t length,
                                advice what, std::int32_t* results) {
  say(fs, cg::this_thread_block(), fd, offset, length, what, results);
}

__global__ void advise_by_tile(fs_ref fs, int fd, std::int64_t offset, std::int64_t length,
                               advice what, std::int32_t* results) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  if (threadIdx.x < 32) say(fs, tile, fd, offset, length, what, results);
}

}  // namespace

int advise_in_kernel(fs_ref const& fs, int fd, std::int64_t offset, std::int64_t length,
                     advice what, caller_kind who, unsigned threads) {
  auto results = zeroed<std::int32_t>(2);
  launch(who == caller_kind::block ? advise_by_block : advise_by_tile, 1, threads, fs, fd, offset,
         length, what, results.data());
  this_thread_stream().synchronize();
  auto const got = contents(results);
  CHECK(got[1] == got[0] * int(who == caller_kind::block ? threads : 32));
  return got[0];
}

std::uint64_t missing(filesystem& fs, int fd, std::string const& path, std::uint64_t offset,
                      std::uint64_t count) {
  read_batch batch;
  batch.add(fd, path, std::int64_t(offset), count);
  auto const before = fs.stats();
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  return (fs.stats() - before).misses;
}

}  // namespace gpufs::test
