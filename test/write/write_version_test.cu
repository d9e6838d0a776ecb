// A file that gets a new version while blocks write it: by fs.write, and by the last gclose of an
// O_GWRONCE descriptor. Nothing that gwrite has returned for may be lost, by the file or by
// readers.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>
#include <test/support/steps.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;

__device__ void count_wrong(std::uint64_t* wrong, bool is_wrong) {
  if (threadIdx.x == 0 && is_wrong)
    atomic_ref<std::uint64_t>(*wrong).fetch_add(1, memory_order_relaxed);
}

__device__ void tell(std::uint32_t& word, std::uint32_t value) {
  if (threadIdx.x == 0)
    atomic_ref<std::uint32_t, scope::system>(word).store(value, memory_order_release);
}

/// Each block counts up in eight bytes of its own and reads them back; the odd ones do it through
/// an array. The last block opens and closes the file as it goes, and so finds new versions.
__global__ void count_up(fs_ref fs, char const* path, int fd, std::uint32_t rounds,
                         std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  __shared__ std::uint64_t value[1], back[1];
  std::int64_t const at = 8 * static_cast<std::int64_t>(1 + blockIdx.x);
  array<std::uint64_t> elements(io, fd, 0, 64);
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    if (threadIdx.x == 0) value[0] = i;
    __syncthreads();
    if (blockIdx.x % 2 == 0) {
      count_wrong(wrong, gwrite(io, fd, value, 8, at) != 8);
    } else if (threadIdx.x == 0) {
      elements[at / 8] = i;
    }
    __syncthreads();
    count_wrong(wrong, gread(io, fd, back, 8, at) != 8 || back[0] != i);
    if (blockIdx.x == gridDim.x - 1 && i % 4 == 0) {
      int const again = gopen(io, path, O_RDWR);
      count_wrong(wrong, again != fd || gclose(io, again) != 0);
    }
  }
  count_wrong(wrong, threadIdx.x == 0 && elements.error() != 0);
}

/// Appends records, a block's number and a count, and reopens the file now and then. With `once`,
/// the last block writes the file's first bytes through O_GWRONCE descriptors instead.
__global__ void append_records(fs_ref fs, char const* path, std::uint32_t rounds, bool once,
                               std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  __shared__ std::uint64_t record[1];
  bool const heads = once && blockIdx.x == gridDim.x - 1;
  int const flags = heads ? O_GWRONCE : O_RDWR | O_APPEND;
  int fd = gopen(io, path, flags);
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    if (threadIdx.x == 0)
      record[0] = heads ? ~0ull : (static_cast<std::uint64_t>(blockIdx.x) + 1) << 32 | i;
    __syncthreads();
    count_wrong(wrong, gwrite(io, fd, record, 8, 0) != 8);
    if (heads || i % 8 == 0) {
      count_wrong(wrong, gclose(io, fd) != 0);
      fd = gopen(io, path, flags);
    }
  }
  count_wrong(wrong, gclose(io, fd) != 0);
}

struct steps {
  std::uint32_t ready, go, wrote, look, read;
};

/// Block 0 has used the file before it is told to go. Then it writes `first` at 0. Block 1 makes
/// its context when it is told to look. It reads the bytes and overwrites them by `second`.
__global__ void write_then_overwrite(fs_ref fs, int fd, std::byte const* first,
                                     std::byte const* second, std::byte* seen, std::uint64_t count,
                                     steps* at, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  if (blockIdx.x == 0) {
    io_context io(fs, block);
    ssize_t const before = gread(io, fd, seen, count, 0);
    tell(at->ready, 1);
    if (threadIdx.x == 0) wait_for(at->go, 1);
    block.sync();
    ssize_t const wrote = gwrite(io, fd, first, count, 0);
    if (threadIdx.x == 0) results[0] = before, results[1] = wrote;
    tell(at->wrote, 1);
  } else {
    if (threadIdx.x == 0) wait_for(at->look, 1);
    block.sync();
    io_context io(fs, block);
    ssize_t const got = gread(io, fd, seen, count, 0);
    ssize_t const wrote = gwrite(io, fd, second, count, 0);
    if (threadIdx.x == 0) results[2] = got, results[3] = wrote;
    tell(at->read, 1);
  }
}

/// The kernel above, and the words through which the test directs it.
struct overwriting {
  explicit overwriting(std::uint64_t n)
      : count{n}, first{some_bytes(1, 0, n)}, second{some_bytes(2, 0, n)}, at(1), seen(n) {
    at.fill_zero();
  }
  void start(fs_ref const& fs, int fd) {
    launch(write_then_overwrite, 2, 64, fs, fd, first_there.data(), second_there.data(),
           seen.data(), count, &at[0], results.data());
  }
  std::uint64_t count;
  std::vector<std::byte> first, second;
  buffer<std::byte> first_there = filled(first), second_there = filled(second);
  pinned_buffer<steps> at;
  buffer<std::byte> seen;
  buffer<std::int64_t> results = zeroed<std::int64_t>(4);
};

std::vector<std::uint64_t> words_of(std::string const& path, std::uint64_t offset) {
  auto const bytes = pread_bytes(path, offset, ~0ull);
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), words.size() * 8);
  return words;
}

/// How far a round has come, in pinned memory: each word is the number of the round.
struct late_call_words {
  std::uint32_t entered;  ///< the first warp of the readers is about to call gread
  std::uint32_t renewed;  ///< the host has given the file a new version
  std::uint32_t written;  ///< gwrite has returned
  std::uint32_t read;     ///< gread has returned
};

__device__ void await_round(std::uint32_t& word, std::uint32_t round) {
  for (unsigned pause = 0;
       atomic_ref<std::uint32_t, scope::system>(word).load(memory_order_acquire) < round;)
    backoff(pause, 4096);
}

/// Block 0 reads. Its first warp calls gread before the file gets a new version, its second one
/// once block 1 has written under that version. So the call must see what was written.
__global__ void call_late(fs_ref fs, char const* path, int fd, std::uint32_t rounds,
                          late_call_words* words, std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  __shared__ std::uint64_t value[1];
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    __syncthreads();
    if (blockIdx.x == 0) {
      if (threadIdx.x == 0) tell(words->entered, round);
      if (threadIdx.x >= 32) await_round(words->written, round);
      count_wrong(wrong, gread(io, fd, value, 8, 0) != 8 || value[0] != round);
      tell(words->read, round);
    } else {
      await_round(words->renewed, round);
      if (threadIdx.x == 0) value[0] = round;
      __syncthreads();
      int const again = gopen(io, path, O_RDWR);  // it takes the new version for all
      count_wrong(wrong, again != fd || gwrite(io, fd, value, 8, 0) != 8);
      tell(words->written, round);
      count_wrong(wrong, gclose(io, again) != 0);
      await_round(words->read, round);
    }
  }
}

/// The same for a file that nobody has written yet, and gmmap. Block 0 knows the file before.
__global__ void map_late(fs_ref fs, char const* path, int fd, late_call_words* words,
                         std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  __shared__ std::uint64_t value[1];
  if (blockIdx.x == 0) {
    void* address = nullptr;
    count_wrong(wrong, gmmap(io, fd, 8, 0, PROT_READ, &address) != 8);
    count_wrong(wrong, gmunmap(io, address) != 0);
    if (threadIdx.x == 0) tell(words->entered, 1);
    if (threadIdx.x >= 32) await_round(words->written, 1);
    count_wrong(wrong, gmmap(io, fd, 8, 0, PROT_READ, &address) != 8);
    count_wrong(wrong, *static_cast<std::uint64_t const volatile*>(address) != 1);
    count_wrong(wrong, gmunmap(io, address) != 0);
    tell(words->read, 1);
  } else {
    await_round(words->entered, 1);
    if (threadIdx.x == 0) value[0] = 1;
    __syncthreads();
    int const writes = gopen(io, path, O_RDWR);
    count_wrong(wrong, writes < 0 || gwrite(io, writes, value, 8, 0) != 8);
    tell(words->written, 1);
    await_round(words->read, 1);
    count_wrong(wrong, gclose(io, writes) != 0);
  }
}

}  // namespace

TEST_CASE("fs.write under blocks that write other bytes of the page: no gwrite is lost or unread") {
  constexpr unsigned blocks = 4;
  constexpr std::uint32_t rounds = scaled(200, 60);
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDWR);
  device_paths const name({path});
  auto const wrong = zeroed<std::uint64_t>(1);
  std::atomic<bool> ended{false};
  std::uint64_t failed = 0;
  std::thread host([&] {
    for (std::uint64_t i = 0; !ended; ++i) failed += fs.write(fd, &i, 8, 0) != 8 ? 1 : 0;
  });
  launch(count_up, blocks, 64, fs.ref(), name.text(), fd, rounds, wrong.data());
  this_thread_stream().synchronize();
  ended = true;
  host.join();
  CHECK(contents(wrong)[0] == 0);
  CHECK(failed == 0);
  CHECK(fs.close(fd) == 0);
  auto const words = words_of(path, 8);
  for (unsigned b = 0; b < blocks; ++b) CHECK(words[b] == rounds);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("appends under fs.write and under closes of O_GWRONCE: every record is there once") {
  constexpr unsigned blocks = 4;
  constexpr std::uint32_t rounds = scaled(200, 60);
  for (bool const once : {false, true}) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", 8);
    filesystem fs(small_config(page, 16));
    int const fd = fs.open(path, O_RDWR);
    device_paths const name({path});
    auto const wrong = zeroed<std::uint64_t>(1);
    std::atomic<bool> ended{false};
    std::uint64_t failed = 0, const_head = ~0ull;
    std::thread host([&] {
      if (once) return;
      do failed += fs.write(fd, &const_head, 8, 0) != 8 ? 1 : 0;
      while (!ended);
    });
    launch(append_records, blocks, 64, fs.ref(), name.text(), rounds, once, wrong.data());
    this_thread_stream().synchronize();
    ended = true;
    host.join();
    CAPTURE(once);
    CHECK(contents(wrong)[0] == 0);
    CHECK(failed == 0);
    CHECK(fs.close(fd) == 0);
    auto const records = words_of(path, 8);
    std::set<std::uint64_t> const distinct(records.begin(), records.end());
    CHECK(records.size() == std::size_t(blocks - once) * rounds);
    CHECK(distinct.size() == records.size());
    CHECK(distinct.count(0) == 0);
    CHECK(words_of(path, 0)[0] == const_head);
  }
}

TEST_CASE(
    "a gwrite by a context from before fs.write: later contexts read it and overwrite it, however "
    "slow its write-back is") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * page);
  auto const gate = std::make_shared<testing::gate>();
  std::atomic<unsigned> writes{0};
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    return writes++ == 0 ? testing::fault_action::hold(gate) : testing::fault_action::pass();
  };
  testing::filesystem fs(small_config(page, 16), faults);
  int const fd = fs.open(path, O_RDWR);
  overwriting kernel(20);
  kernel.start(fs.ref(), fd);
  await_kernel(kernel.at[0].ready, "block 0 has read the file");
  CHECK(fs.write(fd, "host", 4, 3 * page) == 4);
  tell_kernel(kernel.at[0].go);
  wait_until([&] { return gate->arrivals() > 0; }, "the first gwrite is being written back");
  tell_kernel(kernel.at[0].look);
  // A second write that came before the first one is over would be of the same bytes.
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds{30};
  while (writes < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  gate->release();
  this_thread_stream().synchronize();
  CHECK(contents(kernel.results) == std::vector<std::int64_t>(4, 20));
  CHECK(contents(kernel.seen) == kernel.first);
  CHECK(fs.sync(fd) == 0);
  CHECK(pread_bytes(path, 0, 20) == kernel.second);
  CHECK(pread_bytes(path, 3 * page, 4) ==
        std::vector{std::byte{'h'}, std::byte{'o'}, std::byte{'s'}, std::byte{'t'}});
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "while the disk is full, later contexts read what gwrite wrote around fs.write; with room "
    "again "
    "they read fs.write's bytes, too") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * page);
  std::atomic<bool> full{false};
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    return full ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
  };
  testing::filesystem fs(small_config(page, 16), faults);
  int const fd = fs.open(path, O_RDWR);
  overwriting kernel(20);
  kernel.start(fs.ref(), fd);
  await_kernel(kernel.at[0].ready, "block 0 has read the file");
  CHECK(fs.write(fd, "host", 4, 100) == 4);
  full = true;
  tell_kernel(kernel.at[0].go);
  await_kernel(kernel.at[0].wrote, "block 0 has written");
  CHECK(fs.sync() == -EIO);
  tell_kernel(kernel.at[0].look);
  this_thread_stream().synchronize();
  CHECK(contents(kernel.results) == std::vector<std::int64_t>{20, 20, 20, -ENOSPC});
  CHECK(contents(kernel.seen) == kernel.first);
  CHECK(fs.write(fd, "more", 4, 100) == -ENOSPC);
  full = false;
  CHECK(fs.sync(fd) == -ENOSPC);  // of before
  op_batch after;
  auto const ours = after.read(0, fd, 0, 20), theirs = after.read(0, fd, 100, 4);
  after.run(fs.ref(), 1, 64);
  CHECK(after.bytes(ours) == kernel.first);
  CHECK(after.bytes(theirs) == pread_bytes(path, 100, 4));
  CHECK(text_of(path).substr(100, 4) == "host");
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 0, 20) == kernel.first);
}

TEST_CASE("gfstat says nothing false where it cannot learn of gwrites that have returned") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 2 * page);
  auto const gate = std::make_shared<testing::gate>();
  std::atomic<bool> written{false}, full{true}, holds{false};
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    written.wait(false);  // a write-back that fails before the second gwrite would be told by it
    return full    ? testing::fault_action::fail(ENOSPC)
           : holds ? testing::fault_action::hold(gate)
                   : testing::fault_action::pass();
  };
  auto c = small_config(page, 64);
  c.rpc_timeout_ms = 300;
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDWR), once = fs.open(path, O_GWRONCE);
  op_batch writes;
  writes.write(0, fd, 9 * page, some_bytes(1, 0, page));
  writes.write(0, once, 0, some_bytes(2, 0, 8));
  writes.run(fs.ref(), 1, 64);
  written = true;
  written.notify_all();
  CHECK(writes.result(0) == std::int64_t(page));
  CHECK(writes.result(1) == 8);
  CHECK(fs.close(once) == -ENOSPC);  // the file has a new version, and dirty pages of the old one
  holds = true;
  full = false;
  op_batch batch;
  auto const size = batch.size_of(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(size) == -ETIMEDOUT);
  holds = false;
  gate->release();
  wait_until(
      [&] {
        batch.run(fs.ref(), 1, 64);
        return batch.result(size) != -ETIMEDOUT;  // a slow machine takes longer, too
      },
      "an answer in time");
  CHECK(batch.result(size) == std::int64_t(10 * page));
}

TEST_CASE("pages of O_GWRONCE that could not be written come before those of its next open") {
  for (unsigned before = 0; before < 4; ++before) {  // other buffers, other orders
    scratch_folder folder;
    auto const path = make_file(folder, "file", 16 * page);
    std::atomic<bool> full{true};
    auto faults = std::make_shared<scripted_faults>();
    faults->on_write = [&](std::uint64_t, std::uint64_t) {
      return full ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
    };
    testing::filesystem fs(small_config(page, 16), faults);
    for (std::uint64_t const with : {1, 2}) {
      full = with == 1;
      int const fd = fs.open(path, O_GWRONCE);
      op_batch batch;
      std::size_t written = 0;
      auto const write_others = [&] {
        for (unsigned i = 0; i < before; ++i)
          batch.write(0, fd, std::int64_t((8 + i) * page), some_bytes(9, 0, 10));
      };
      // On the full disk it comes first: write-back may fail before the next gwrite, and tell it.
      if (with == 2) write_others();
      written = batch.write(0, fd, 0, some_bytes(with, 0, 20));
      if (with == 1) write_others();
      batch.run(fs.ref(), 1, 64);
      CHECK(batch.result(written) == 20);
      CHECK(fs.close(fd) == (with == 1 ? -ENOSPC : 0));
    }
    CAPTURE(before);
    CHECK(fs.unwritten().empty());
    CHECK(pread_bytes(path, 0, 20) == some_bytes(2, 0, 20));
  }
}

TEST_CASE("versions: a gread sees what any of its threads knew to be written when it came") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 8 * page, 1);
  filesystem fs(small_config(page, 32));
  device_paths const name({path});
  int const fd = fs.open(path, O_RDWR);
  unsigned const rounds = scaled(200, 30);
  pinned_buffer<late_call_words> words(1);
  words.fill_zero();
  auto wrong = zeroed<std::uint64_t>(1);
  launch(call_late, 2, 64, fs.ref(), name.text(), fd, rounds, words.data(), wrong.data());
  std::uint64_t const other = 7;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    std::atomic_ref entered{words[0].entered};
    wait_until([&] { return entered.load(std::memory_order_acquire) >= round; }, "a gread");
    CHECK(fs.write(fd, &other, 8, 4 * page) == 8);
    std::atomic_ref{words[0].renewed}.store(round, std::memory_order_release);
  }
  CHECK(result_in(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("versions: a gmmap sees the first gwrite that any of its threads knew of when it came") {
  unsigned const rounds = scaled(50, 10);
  for (unsigned round = 0; round < rounds; ++round) {
    scratch_folder folder;
    auto const path = make_file(folder, "a", 8 * page, 2);
    filesystem fs(small_config(page, 32));
    device_paths const name({path});
    int const fd = fs.open(path, O_RDONLY);
    pinned_buffer<late_call_words> words(1);
    words.fill_zero();
    auto wrong = zeroed<std::uint64_t>(1);
    launch(map_late, 2, 64, fs.ref(), name.text(), fd, words.data(), wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    CHECK(fs.close(fd) == 0);
  }
}
