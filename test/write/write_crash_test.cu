// What a loss of power leaves. All changes that the daemon makes to files are noted. For each
// moment of a run, the files are made again from what was durable, and a part of what was not.
#include <gpufs/gpufs.hpp>

#include <test/crash/memory_log.hpp>
#include <test/history/check.hpp>
#include <test/history/run.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

std::uint64_t inode_of(std::string const& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// A moment, and what is lost at it.
struct crash {
  std::size_t moment;
  loss lost;
};

/// At most so many moments of a run, some of them at random, each with several losses.
std::vector<crash> some_crashes(crash_disk const& disk, std::size_t most, std::mt19937_64& random) {
  std::vector<std::size_t> moments(disk.moments());
  for (std::size_t m = 0; m < moments.size(); ++m) moments[m] = m;
  if (moments.size() > most) {
    std::swap(moments.front(), moments.back());  // the last one stays
    std::shuffle(moments.begin() + 1, moments.end(), random);
    moments.resize(most);
  }
  std::vector<crash> all;
  for (auto const m : moments) {
    all.push_back({m, {loss::kind::all}});
    all.push_back({m, {loss::kind::none}});
    for (int i = 0; i < 2; ++i) all.push_back({m, {loss::kind::some, random()}});
  }
  return all;
}

/// The program with more syncs: some writes are followed by one, on the same handle.
history::program with_syncs(history::program const& p, std::mt19937_64& random) {
  history::program result = p;
  result.calls.clear();
  std::vector<std::uint32_t> places;
  for (auto c : p.calls) {
    if (c.after != 0) c.after = places[c.after - 1] + 1;
    places.push_back(std::uint32_t(result.calls.size()));
    result.calls.push_back(c);
    bool const changes =
        c.what == history::call_kind::write || c.what == history::call_kind::truncate;
    if (!changes || c.filesystem == 0 || random() % 3 == 0) continue;
    result.calls.push_back({.what = history::call_kind::sync,
                            .actor = c.actor,
                            .filesystem = c.filesystem,
                            .handle = c.handle});
  }
  return result;
}

/// Runs a program, and checks the file after many crashes.
std::vector<std::string> run_and_crash(history::machine& m, history::program p,
                                       std::mt19937_64& random, std::string& text) {
  memory_log log;
  std::uint64_t inode = 0;
  auto h = m.run(p, [&](std::string const& path) {
    inode = inode_of(path);
    log.start([&] { return m.stamp(); });
  });
  log.stop();
  crash_disk const disk(log.take());
  crash_disk::bytes before(p.initial_size);
  for (std::uint64_t i = 0; i < before.size(); ++i)
    before[i] = history::value_of(history::initial_tag, i);
  auto const actor = std::uint32_t(p.actors.size());
  p.actors.push_back({history::actor_kind::outsider});
  for (auto const& c : some_crashes(disk, 80, random)) {
    auto bytes = disk.image(inode, before, c.moment, c.lost);
    auto const size = bytes.size(), time = disk.end_of(c.moment);
    p.calls.push_back({.what = history::call_kind::crash, .actor = actor, .count = size + 1});
    h.push_back({time, time, std::int64_t(size), std::move(bytes)});
  }
  auto wrong = history::check(p, h);
  if (!wrong.empty()) text = history::to_text(p, &h);
  return wrong;
}

// Many blocks write to several files. In each round, a block writes the round's number to some of
// its words in one file, and then may call gfsync. The last file is written with O_GWRONCE.
constexpr std::uint32_t files = 3, blocks = 6, words = 24, rounds = scaled(14, 6);
constexpr std::uint64_t spread = 88;  // bytes from one word of a block to the next

struct round_times {
  std::uint64_t begin, end, synced;  ///< synced: no_time if there was no gfsync
  std::int32_t failures, reserved;
};

GPUFS_HOST_DEVICE inline std::uint64_t chosen(std::uint64_t seed, std::uint32_t block,
                                              std::uint32_t round) {
  return base::mix64(seed ^ (std::uint64_t(block) << 20 | round));
}
GPUFS_HOST_DEVICE inline bool writes_word(std::uint64_t choice, std::uint32_t word) {
  return base::mix64(choice + word) % 3 == 0;
}
GPUFS_HOST_DEVICE inline std::uint64_t place_of(std::uint32_t block, std::uint32_t word) {
  return word * spread + block * sizeof(std::uint64_t);
}

__global__ void __launch_bounds__(64) write_files(fs_ref fs, int const* fds, std::uint64_t seed,
                                                  history::recorder_ref clock, round_times* times) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  __shared__ std::uint64_t value[1];
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    auto const choice = chosen(seed, blockIdx.x, round);
    round_times& t = times[blockIdx.x * (rounds + 1) + round];
    if (threadIdx.x == 0) {
      value[0] = round;
      t.begin = history::device_stamp(clock);
    }
    __syncthreads();
    std::int32_t failures = 0;
    int const fd = fds[choice % files];
    for (std::uint32_t w = 0; w < words; ++w) {
      if (!writes_word(choice, w)) continue;
      auto const at = static_cast<std::int64_t>(place_of(blockIdx.x, w));
      failures += gwrite(io, fd, value, sizeof(value), at) != sizeof(value) ? 1 : 0;
    }
    bool const syncs = choice / files % 2 == 0;
    if (threadIdx.x == 0) t.end = history::device_stamp(clock);
    if (syncs) failures += gfsync(io, fd) != 0 ? 1 : 0;
    if (threadIdx.x == 0) {
      if (syncs) t.synced = history::device_stamp(clock);
      t.failures = failures;
    }
    __syncthreads();
  }
}

/// The rounds whose number a word may have after a crash.
struct possible {
  std::uint64_t oldest, newest;
};
possible rounds_at(std::uint64_t time, round_times const* times, std::uint64_t seed,
                   std::uint32_t file, std::uint32_t block, std::uint32_t word) {
  possible p{0, 0};
  std::uint64_t last = 0;  // the last round that wrote the word
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    auto const choice = chosen(seed, block, round);
    if (choice % files != file || times[round].begin > time) continue;
    if (writes_word(choice, word)) p.newest = last = round;
    if (times[round].synced < time) p.oldest = last;
  }
  return p;
}

// Each block maps a word of a page that it shares with another block, and stores the round there.
GPUFS_HOST_DEVICE inline std::int64_t mapped_place(std::uint32_t block) {
  return block / 2 * 512 + block % 2 * 64;
}

__global__ void __launch_bounds__(64)
    store_mapped(fs_ref fs, int fd, std::uint64_t seed, history::recorder_ref clock,
                 round_times* times) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  void* address = nullptr;
  constexpr ssize_t bytes = sizeof(std::uint64_t);
  std::int32_t failures =
      gmmap(io, fd, bytes, mapped_place(blockIdx.x), PROT_READ | PROT_WRITE, &address) != bytes;
  for (std::uint32_t round = 1; round <= rounds && failures == 0; ++round) {
    round_times& t = times[blockIdx.x * (rounds + 1) + round];
    bool const syncs = chosen(seed, blockIdx.x, round) % 2 == 0;
    if (threadIdx.x == 0) {
      t.begin = history::device_stamp(clock);
      *static_cast<std::uint64_t*>(address) = round;
    }
    failures += gmsync(io, fd, address, bytes, syncs ? MS_SYNC : MS_ASYNC) != 0 ? 1 : 0;
    if (threadIdx.x == 0 && syncs) t.synced = history::device_stamp(clock);
    __syncthreads();
  }
  failures += address == nullptr || gmunmap(io, address) != 0 ? 1 : 0;
  if (threadIdx.x == 0) times[blockIdx.x * (rounds + 1)].failures = failures;
}

}  // namespace

TEST_CASE(
    "crash: random programs leave all that gfsync has returned for, and no byte of nobody's") {
  history::machine m;
  std::mt19937_64 random(seed());
  for (unsigned n = 0; n < scaled(16, 4); ++n) {
    auto p = with_syncs(history::generate(seed() + n), random);
    p.process = false;  // its changes are noted, too
    std::string text;
    auto const wrong = run_and_crash(m, history::with_end(p), random, text);
    INFO("program ", seed() + n, "\n", text);
    for (auto const& line : wrong) FAIL_CHECK(line);
  }
}

namespace {

/// A filesystem whose kernels take stamps of a clock that the log of changes shares.
struct stamped {
  scratch_folder folder;
  filesystem fs;
  pinned_buffer<std::uint64_t> clock{1};
  buffer<std::uint64_t> device_order{1};
  history::recorder_ref stamps{clock.data(), device_order.data(), nullptr, nullptr};
  pinned_buffer<round_times> times{blocks * (rounds + 1)};
  memory_log log;

  stamped() : fs(settings()) {
    clock[0] = 1;
    device_order.fill_zero();
    for (auto& t : times) t = {no_time, no_time, no_time, 0, 0};
  }
  static config settings() {
    auto c = small_config(512, 64);
    c.write_memory = 8192;
    return c;
  }
  void start() {
    log.start([this] { return history::host_stamp(stamps); });
  }
  /// What the daemon has written from start() on.
  crash_disk finish() {
    this_thread_stream().synchronize();
    fs.sync();
    log.stop();
    for (auto const& t : times) CHECK(t.failures == 0);
    return crash_disk(log.take());
  }
};

std::uint64_t word_in(crash_disk::bytes const& bytes, std::uint64_t at) {
  std::uint64_t value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("crash: in each of several files, each block finds what its gfsync has returned for") {
  std::mt19937_64 random(seed());
  stamped run;
  pinned_buffer<int> fds(files);
  std::vector<std::uint64_t> inodes;
  for (std::uint32_t f = 0; f < files; ++f) {
    auto const path = make_file(run.folder, std::to_string(f), 0);
    inodes.push_back(inode_of(path));
    fds[f] = run.fs.open(path, f + 1 == files ? O_WRONLY | O_GWRONCE : O_RDWR);
    REQUIRE(fds[f] > 0);
  }
  run.start();
  launch(write_files, blocks, 64, run.fs.ref(), fds.data(), seed(), run.stamps, run.times.data());
  auto const disk = run.finish();
  std::uint64_t wrong = 0, ragged = 0;
  for (auto const& crash : some_crashes(disk, 150, random)) {
    auto const time = disk.end_of(crash.moment);
    for (std::uint32_t f = 0; f < files; ++f) {
      auto const bytes = disk.image(inodes[f], {}, crash.moment, crash.lost);
      ragged += bytes.size() > place_of(blocks, words) ? 1 : 0;
      for (std::uint32_t b = 0; b < blocks; ++b) {
        for (std::uint32_t w = 0; w < words; ++w) {
          auto const value = word_in(bytes, place_of(b, w));
          auto const p = rounds_at(time, run.times.data() + b * (rounds + 1), seed(), f, b, w);
          wrong += value < p.oldest || value > p.newest ? 1 : 0;
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(ragged == 0);
}

TEST_CASE("crash: stores to mapped pages are there when gmsync with MS_SYNC has returned") {
  std::mt19937_64 random(seed());
  stamped run;
  auto const path = run.folder / "file";
  crash_disk::bytes const before(std::uint64_t(mapped_place(blocks)) + 512);
  write_bytes(path, before);
  int const fd = run.fs.open(path, O_RDWR);
  REQUIRE(fd > 0);
  run.start();
  launch(store_mapped, blocks, 64, run.fs.ref(), fd, seed(), run.stamps, run.times.data());
  auto const disk = run.finish();
  std::uint64_t wrong = 0;
  for (auto const& crash : some_crashes(disk, 150, random)) {
    auto const time = disk.end_of(crash.moment);
    auto const bytes = disk.image(inode_of(path), before, crash.moment, crash.lost);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      std::uint64_t oldest = 0, newest = 0;
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        auto const& t = run.times[b * (rounds + 1) + round];
        if (t.begin <= time) newest = round;
        if (t.synced < time) oldest = round;
      }
      auto const value = word_in(bytes, std::uint64_t(mapped_place(b)));
      wrong += value < oldest || value > newest ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
}
