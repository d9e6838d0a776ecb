// Races on the page table, the frames' state words and the two ways to take a frame, without files
// or daemon.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr unsigned most_pages = 4096;

struct churn {
  handle::page_cache_ref cache;
  std::uint64_t seed;
  std::uint32_t files;
  std::uint32_t pages;   // per file
  std::uint32_t rounds;  // per warp
  std::uint32_t fail_one_in;
  std::uint32_t seats;  // 0: frames from the sweep; else from this many replacement queues
};

struct tally {
  std::uint64_t hits, waits, vain_waits, fills, failures, duplicates, full, without_frame;
  std::uint64_t together;      // frames that enter_one() took and entered, or could not enter
  std::uint64_t wrong_bytes;   // a pinned ready frame that did not hold its page
  std::uint64_t double_fills;  // a page being filled in two frames at once
  std::uint64_t wrong_errors;  // a failed fill whose waiter did not see the error
};

__device__ void add(std::uint64_t& to, std::uint64_t n = 1) {
  atomic_ref<std::uint64_t, scope::device>(to).fetch_add(n, memory_order_relaxed);
}

__device__ std::uint64_t content(std::uint64_t version, std::uint64_t page, unsigned lane) {
  return base::mix64(version * 1'000'003 + page * 64 + lane);
}

__device__ std::uint64_t* words(handle::page_cache_ref const& c, std::uint32_t frame) {
  return reinterpret_cast<std::uint64_t*>(cache::frame_bytes(c, frame));
}

// The frame is pinned and ready: its bytes are read with plain loads, as gread does.
__device__ void check(churn const& job, tally& t, std::uint32_t frame, std::uint64_t version,
                      std::uint64_t page) {
  if (words(job.cache, frame)[lane_id()] != content(version, page, lane_id())) add(t.wrong_bytes);
  if (lane_id() == 0 && valid_bytes(job.cache.headers[frame]) != page + 1) add(t.wrong_bytes);
  __syncwarp();
}

__device__ void await_filled(churn const& job, tally& t, std::uint32_t frame, std::uint64_t version,
                             std::uint64_t page) {
  std::uint32_t arrived = 0;
  if (lane_id() == 0) {
    cache::frame_header& h = job.cache.headers[frame];
    cache::phase now = cache::phase::filling;
    for (unsigned pause = 0;
         (now = cache::phase_of(cache::frame_state(h).load(memory_order_acquire))) ==
         cache::phase::filling;)
      backoff(pause);
    bool const ours = cache::names(h, version, page);
    arrived = ours && now == cache::phase::ready ? 1 : 0;
    if (ours && now == cache::phase::failed &&
        cache::fetch_error(h) != -1000 - static_cast<std::int32_t>(page))
      add(t.wrong_errors);
    add(ours && now != cache::phase::empty ? t.waits : t.vain_waits);
  }
  arrived = base::warp_broadcast(arrived);
  __syncwarp();  // all lanes come after lane 0's acquire
  if (arrived != 0) check(job, t, frame, version, page);
}

__device__ void fill(churn const& job, tally& t, std::uint32_t frame, std::uint64_t version,
                     std::uint64_t page, bool failing, std::uint32_t* in_progress) {
  atomic_ref<std::uint32_t, scope::device> mine(in_progress[(version - 1) * job.pages + page]);
  if (lane_id() == 0 && mine.fetch_add(1, memory_order_relaxed) != 0) add(t.double_fills);
  words(job.cache, frame)[lane_id()] = failing ? 0 : content(version, page, lane_id());
  __syncwarp();
  if (lane_id() == 0) mine.fetch_sub(1, memory_order_relaxed);
  __syncwarp();  // before any lane takes the entry out
  if (failing) {
    cache::remove(job.cache, frame);
    if (lane_id() == 0) fail(job.cache.headers[frame], -1000 - static_cast<std::int32_t>(page));
  } else if (lane_id() == 0) {
    publish(job.cache.headers[frame], static_cast<std::uint32_t>(page + 1));
  }
  if (lane_id() == 0) add(failing ? t.failures : t.fills);
}

struct entered_frame {
  bool taken = false, together = false;
  std::uint32_t frame = 0;
  cache::insert_result result = cache::insert_result::duplicate;
};

// Takes a frame and enters it, in one of the two ways. All lanes of a warp call.
__device__ entered_frame enter(churn const& job, std::int32_t seat, std::uint64_t version,
                               std::uint64_t page, bool together) {
  if (together && seat >= 0) {
    std::uint64_t const drawn = lane_id() == 0 ? cache::draw_next(job.cache, seat) : 0;
    cache::one_entered const one = cache::enter_one(job.cache, seat, drawn, version, page);
    if (one.taken) return {true, true, one.frame, one.result};
  }
  cache::taken_frame const taken = cache::take_each(job.cache, seat, lane_id() == 0);
  if (__ballot_sync(base::all_lanes, taken.frame >= 0) == 0) return {};
  std::uint32_t const frame = base::warp_broadcast(static_cast<std::uint32_t>(taken.frame));
  if (lane_id() == 0) begin_fill(job.cache.headers[frame], version, page);
  __syncwarp();
  auto const result =
      static_cast<cache::insert_result>(base::warp_broadcast(static_cast<std::uint32_t>(
          cache::insert_each(job.cache, lane_id() == 0, version, page, frame))));
  return {true, false, frame, result};
}

__global__ void churn_pages(churn job, tally* t, std::uint32_t* in_progress) {
  std::uint32_t const warp = base::warp_number();
  for (std::uint32_t i = 0; i < job.rounds; ++i) {
    std::uint64_t const random = base::mix64(job.seed + (std::uint64_t(warp) << 32 | i));
    std::uint64_t const version = random % job.files + 1;
    std::uint64_t const page = (random >> 8) % job.pages;
    cache::lookup const found = cache::find_and_pin(job.cache, version, page);
    if (found.result == cache::lookup_result::hit) {
      check(job, *t, found.frame, version, page);
      if (lane_id() == 0) {
        cache::unpin_read(job.cache.headers[found.frame]);
        add(t->hits);
      }
      continue;
    }
    if (found.result == cache::lookup_result::filling) {
      await_filled(job, *t, found.frame, version, page);
      __syncwarp();
      if (lane_id() == 0) cache::unpin_read(job.cache.headers[found.frame]);
      continue;
    }
    std::int32_t const seat = job.seats != 0 ? static_cast<std::int32_t>(warp % job.seats) : -1;
    entered_frame const mine = enter(job, seat, version, page, random >> 63 != 0);
    if (!mine.taken) {
      if (lane_id() == 0) add(t->without_frame);
      continue;
    }
    std::uint32_t const frame = mine.frame;
    cache::insert_result const entered = mine.result;
    if (lane_id() == 0 && mine.together) add(t->together);
    if (entered == cache::insert_result::inserted) {
      fill(job, *t, frame, version, page,
           job.fail_one_in != 0 && (random >> 40) % job.fail_one_in == 0, in_progress);
      continue;
    }
    if (lane_id() == 0) {
      release_filling(job.cache.headers[frame]);
      add(entered == cache::insert_result::full ? t->full : t->duplicates);
    }
    __syncwarp();
    if (entered == cache::insert_result::full && lane_id() == 0)
      cache::evict_from_bucket(job.cache, version, page, cache::keep_pins{});
    __syncwarp();
  }
}

// One warp: all of its lanes enter pages of their own at once, then the same pages again, then take
// half of them out.
__global__ void enter_together(handle::page_cache_ref cache, std::uint32_t* inserted,
                               std::uint32_t* duplicates, std::uint32_t* found) {
  unsigned const lane = lane_id();
  std::uint32_t frames[2];
  for (unsigned round = 0; round < 2; ++round) {
    cache::taken_frame const taken = cache::take_each(cache, -1, true);
    frames[round] = static_cast<std::uint32_t>(taken.frame);
    begin_fill(cache.headers[frames[round]], 1, lane);
    __syncwarp();
    cache::insert_result const result = cache::insert_each(cache, true, 1, lane, frames[round]);
    (round == 0 ? inserted : duplicates)[lane] =
        result == (round == 0 ? cache::insert_result::inserted : cache::insert_result::duplicate)
            ? 1
            : 0;
  }
  release_filling(cache.headers[frames[1]]);
  publish(cache.headers[frames[0]], 1);
  __syncwarp();
  cache::remove_each(cache, lane % 2 == 0 && claim(cache.headers[frames[0]]) == cache::phase::ready,
                     frames[0]);
  for (unsigned page = 0; page < base::warp_size; ++page) {
    cache::lookup const there = cache::find_and_pin(cache, 1, page);
    if (there.result == cache::lookup_result::hit && lane == 0)
      cache::unpin_read(cache.headers[there.frame]);
    if (lane == page) found[page] = there.result == cache::lookup_result::hit ? 1 : 0;
    __syncwarp();
  }
  if (lane % 2 == 0) release_evicting(cache.headers[frames[0]]);
}

tally run(filesystem& fs, churn job, unsigned blocks, unsigned threads) {
  REQUIRE(job.files * job.pages <= most_pages);
  buffer<tally> result(1);
  buffer<std::uint32_t> in_progress(most_pages);
  result.fill_zero();
  in_progress.fill_zero();
  launch(churn_pages, blocks, threads, job, result.data(), in_progress.data());
  this_thread_stream().synchronize();
  tally t;
  result.copy_to_host(&t, 1);
  CHECK(t.wrong_bytes == 0);
  CHECK(t.double_fills == 0);
  CHECK(t.wrong_errors == 0);
  auto ref = fs.ref();
  ref.cache.bucket_count = job.cache.bucket_count;
  CHECK(inspect(ref).problems == "");
  return t;
}

churn job_for(filesystem const& fs, std::uint32_t files, std::uint32_t pages,
              std::uint32_t rounds) {
  return {fs.ref().cache, seed(), files, pages, rounds, 0, 0};
}

}  // namespace

TEST_CASE(
    "page table: under churn a pinned ready frame holds its page, and a page is filled in one "
    "frame at a time") {
  CAPTURE(seed());
  for (auto const policy : {replacement::fifo, replacement::clock}) {
    auto c = small_config(512, 24);
    c.policy = policy;
    filesystem fs(c);
    auto const t = run(fs, job_for(fs, 2, 30, scaled(2000, 400)), 8, 64);
    CHECK(t.hits > 0);
    CHECK(t.fills > 24);
  }
}

TEST_CASE(
    "page table: with fewer frames than warps callers go without, and none gets another's frame") {
  CAPTURE(seed());
  filesystem fs(small_config(512, 8));
  auto const t = run(fs, job_for(fs, 1, 12, scaled(2000, 400)), 8, 128 / scaled(1, 2));
  CHECK(t.fills > 8);
}

TEST_CASE(
    "page table: a fill that fails leaves no entry, and whoever waits for it sees the error") {
  CAPTURE(seed());
  filesystem fs(small_config(512, 16));
  // More pages than frames: misses, and with them failures, go on for as long as the kernel runs.
  auto job = job_for(fs, 1, 24, scaled(2000, 400));
  job.fail_one_in = 2;
  auto const t = run(fs, job, 8, 64);
  CHECK(t.failures > 0);
  CHECK(t.fills > 0);
}

TEST_CASE("page table: a single bucket for all pages overflows and recovers") {
  CAPTURE(seed());
  auto c = small_config(512, 64);
  c.policy = replacement::fifo;
  filesystem fs(c);
  auto job = job_for(fs, 2, 40, scaled(1000, 300));
  job.cache.bucket_count = 1;
  auto const t = run(fs, job, 8, 64);
  CHECK(t.full > 0);
  CHECK(t.fills > 32);
}

TEST_CASE("page table: lanes of one warp enter and take out pages of one bucket, all at once") {
  for (bool const one_bucket : {true, false}) {
    CAPTURE(one_bucket);
    auto c = small_config(512, 128);
    c.policy = replacement::fifo;
    filesystem fs(c);
    auto cache = fs.ref().cache;
    if (one_bucket) cache.bucket_count = 1;
    buffer<std::uint32_t> results(3 * base::warp_size);
    launch(enter_together, 1, base::warp_size, cache, results.data(),
           results.data() + base::warp_size, results.data() + 2 * base::warp_size);
    this_thread_stream().synchronize();
    std::uint32_t r[3 * base::warp_size];
    results.copy_to_host(r, 3 * base::warp_size);
    for (unsigned lane = 0; lane < base::warp_size; ++lane) {
      CAPTURE(lane);
      CHECK(r[lane] == 1);
      CHECK(r[base::warp_size + lane] == 1);
      CHECK(r[2 * base::warp_size + lane] == lane % 2);
    }
  }
}

TEST_CASE(
    "lra: queues that many warps share, and take from each other, never hand out a frame twice") {
  CAPTURE(seed());
  for (std::uint32_t const seats : {1u, 3u, 16u}) {
    auto c = small_config(512, 24);
    c.policy = replacement::lra;
    c.seats = 16;
    filesystem fs(c);
    auto job = job_for(fs, 2, 30, scaled(2000, 400));
    job.seats = seats;
    auto const t = run(fs, job, 8, 64);
    CHECK(t.hits > 0);
    CHECK(t.fills > 24);
    CHECK(t.together > 24);
  }
}

TEST_CASE("lra: pages that are entered alone overflow a single bucket, and recover") {
  CAPTURE(seed());
  auto c = small_config(512, 64);
  c.policy = replacement::lra;
  c.seats = 16;
  filesystem fs(c);
  auto job = job_for(fs, 2, 40, scaled(1000, 300));
  job.seats = 4;
  job.cache.bucket_count = 1;
  auto const t = run(fs, job, 8, 64);
  CHECK(t.full > 0);
  CHECK(t.duplicates > 0);
  CHECK(t.together > 32);
}
