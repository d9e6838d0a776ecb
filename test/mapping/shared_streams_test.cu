// Shared memory on several streams: what a call declares is ordered with calls of other streams,
// on the device, and what is independent is not.
#include <gpufs/mapping.hpp>

#include <test/mapping/held_kernels.hpp>
#include <test/mapping/kernels.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;

/// to[i] = from[i] + add.
__global__ void copy_words(std::uint32_t const* from, std::uint32_t* to, std::uint64_t count,
                           std::uint32_t add) {
  for (auto i = thread_number(); i < count; i += thread_count()) to[i] = from[i] + add;
}

/// The same, when the host lets it.
__global__ void copy_late(std::uint32_t const* from, std::uint32_t* to, std::uint64_t count,
                          std::uint32_t add, std::uint32_t* handshake) {
  shared_word(handshake[0]).store(1, gpufs::memory_order_release);
  wait_in_kernel(handshake[1], 1);
  for (std::uint64_t i = 0; i < count; ++i) to[i] = from[i] + add;
}

std::uint64_t count_other_than(mapping const& m, std::uint32_t value) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < m.size() / 4; ++i) wrong += m.as<std::uint32_t>()[i] != value;
  return wrong;
}

mapping_config small_blocks() { return settings_of_suite(4 * kibi); }

/// Three objects of zeros and two streams. A call on the first stream waits for the host, and then
/// stores 5 to `middle`.
struct two_streams {
  explicit two_streams(mapping_config const& c = small_blocks()) : memory(c) {}

  void launch_late(bool declares) {
    if (declares) {
      shared_call call(&a);
      call.reads(from).writes(middle);
      launch(call, copy_late, 1, 1, for_kernels(from), for_kernels(middle), count, 5u, with.data());
    } else {
      launch({.grid = 1, .block = 1, .on = &a}, copy_late, for_kernels(from), for_kernels(middle),
             count, 5u, with.data());
    }
    with.wait_for_kernel(1);
  }
  /// From `middle` to `to`, on the second stream.
  void launch_next(bool declares) {
    if (declares) {
      shared_call call(&b);
      call.reads(middle).writes(to);
      launch(call, copy_words, 1, 32, for_kernels(middle), for_kernels(to), count, 1u);
    } else {
      launch({.grid = 1, .block = 32, .on = &b}, copy_words, for_kernels(middle), for_kernels(to),
             count, 1u);
    }
  }

  static constexpr std::uint64_t count = 5000;
  shared_memory memory;
  mapping from = memory.allocate(count * 4);
  mapping middle = memory.allocate(count * 4);
  mapping to = memory.allocate(count * 4);
  stream a, b;
  handshake with;
};

}  // namespace

TEST_CASE("streams: a launch that reads what a running call writes comes behind it") {
  struct {
    bool first_declares, next_declares;
  } const ways[] = {{true, true}, {true, false}, {false, true}};
  for (auto const& way : ways) {
    CAPTURE(way.first_declares);
    CAPTURE(way.next_declares);
    two_streams s;
    s.launch_late(way.first_declares);
    s.launch_next(way.next_declares);
    // The host is here, so it has not waited for the first call.
    CHECK(!s.a.done());
    s.with.let_go();
    s.memory.synchronize(s.b);
    CHECK(count_other_than(s.to, 6) == 0);
    s.memory.synchronize();
    CHECK(count_other_than(s.middle, 5) == 0);
  }
}

TEST_CASE("streams: a launch that writes what a running call reads comes behind it") {
  two_streams s;
  s.launch_late(true);
  {
    shared_call call(&s.b);
    call.reads_writes(s.from);
    launch(call, add_to_all, 1, 32, for_kernels(s.from), s.count, 9u);
  }
  for (int i = 0; i < 2'000; ++i) ::sched_yield();  // time to do wrong
  CHECK(!s.a.done());
  s.with.let_go();
  s.memory.synchronize();
  CHECK(count_other_than(s.middle, 5) == 0);
  CHECK(count_other_than(s.from, 9) == 0);
}

TEST_CASE("streams: of two launches that write the same bytes the later one is seen") {
  two_streams s;
  s.launch_late(true);
  {
    shared_call call(&s.b);
    call.reads(s.to).writes(s.middle);
    launch(call, copy_words, 1, 32, for_kernels(s.to), for_kernels(s.middle), s.count, 8u);
  }
  s.with.let_go();
  s.memory.synchronize();
  CHECK(count_other_than(s.middle, 8) == 0);
}

TEST_CASE("streams: independent launches do not wait for one another") {
  two_streams s;
  s.launch_late(true);
  auto const other = s.memory.allocate(s.count * 4);
  SUBCASE("other objects") {
    shared_call call(&s.b);
    call.reads(s.to).writes(other);
    launch(call, copy_words, 1, 32, for_kernels(s.to), for_kernels(other), s.count, 3u);
  }
  SUBCASE("both only read an object") {
    shared_call call(&s.b);
    call.reads(s.from).writes(other);
    launch(call, copy_words, 1, 32, for_kernels(s.from), for_kernels(other), s.count, 3u);
  }
  // Without an end, if it waits for the first.
  s.memory.synchronize(s.b);
  CHECK(count_other_than(other, 3) == 0);
  CHECK(!s.a.done());
  s.with.let_go();
  s.memory.synchronize();
  CHECK(count_other_than(s.middle, 5) == 0);
}

TEST_CASE("streams: calls that use other blocks of an object do not wait for one another") {
  shared_memory memory(small_blocks());
  auto const m = memory.allocate(64 * kibi), zeros = memory.allocate(64 * kibi);
  std::uint64_t const half = m.size() / 8;
  auto* const words = m.as<std::uint32_t>();
  stream a, b;
  handshake with;
  {
    shared_call call(&a);
    call.reads(zeros).writes(m, 0, half * 4);
    launch(call, copy_late, 1, 1, for_kernels(zeros), for_kernels(m), half, 1u, with.data());
  }
  with.wait_for_kernel(1);
  {
    shared_call call(&b);
    call.reads(zeros).writes(m, half * 4, half * 4);
    launch(call, copy_words, 1, 32, for_kernels(zeros), for_kernels(m) + half, half, 2u);
  }
  memory.synchronize(b);
  CHECK(!a.done());
  with.let_go();
  memory.synchronize();
  for (std::uint64_t i = 0; i < 2 * half; ++i) REQUIRE(words[i] == (i < half ? 1 : 2));
}

TEST_CASE("streams: launches that declare nothing are ordered by the program alone") {
  two_streams s;
  s.launch_late(false);
  s.launch_next(false);
  s.b.synchronize();
  CHECK(!s.a.done());
  s.with.let_go();
  s.memory.synchronize();
  CHECK(count_other_than(s.to, 1) == 0);
  CHECK(count_other_than(s.middle, 5) == 0);
}

TEST_CASE("streams: a launch comes behind calls that wait for others themselves") {
  shared_memory memory(small_blocks());
  constexpr unsigned length = 8;
  constexpr std::uint64_t count = 3000;
  std::vector<mapping> objects;
  for (unsigned n = 0; n <= length; ++n) objects.push_back(memory.allocate(count * 4));
  for (unsigned round = 0; round < scaled(20, 4); ++round) {
    std::array<stream, length> streams;
    handshake with;
    for (unsigned n = 0; n < length; ++n) {
      shared_call call(&streams[n]);
      auto const* const from = for_kernels(objects[n]);
      auto* const to = for_kernels(objects[n + 1]);
      call.reads(objects[n]).writes(objects[n + 1]);
      if (n == 0)
        launch(call, copy_late, 1, 1, from, to, count, round, with.data());
      else
        launch(call, copy_words, 1, 32, from, to, count, 1u);
    }
    with.let_go();
    memory.synchronize(streams[length - 1]);
    CHECK(count_other_than(objects[length], round + length - 1) == 0);
    memory.synchronize();
  }
}

TEST_CASE("streams: a launch comes behind a call whose stream is gone") {
  two_streams s;
  s.launch_late(true);
  std::thread ender([&] { stream const gone = std::move(s.a); });  // may wait for the call
  s.launch_next(true);
  s.with.let_go();
  s.memory.synchronize(s.b);
  CHECK(count_other_than(s.to, 6) == 0);
  ender.join();
}

TEST_CASE("streams: the order holds between threads") {
  two_streams s;
  std::atomic<bool> is_launched{false};
  std::thread first([&] {
    s.launch_late(true);
    is_launched = true;
  });
  std::thread next([&] {
    while (!is_launched) ::sched_yield();
    s.launch_next(true);
    s.with.let_go();
    s.memory.synchronize(s.b);
  });
  first.join();
  next.join();
  CHECK(count_other_than(s.to, 6) == 0);
}

TEST_CASE("streams: calls that are released and not launched keep nobody waiting") {
  two_streams s;
  shared_call one(&s.a), two(&s.b);
  one.reads(s.from).writes(s.middle);
  two.reads(s.middle).writes(s.to);
  CHECK(one.release() == 0);
  CHECK(two.release() == 0);
  two.launched();
  s.memory.synchronize(s.b);
  one.launched();
  s.memory.synchronize();
  s.launch_late(true);
  s.launch_next(true);
  s.with.let_go();
  s.memory.synchronize();
  CHECK(count_other_than(s.to, 6) == 0);
}

TEST_CASE("streams: a launch comes behind calls of several address spaces") {
  constexpr std::uint64_t count = 3000;
  shared_memory one(small_blocks()), two(small_blocks());
  auto const a = one.allocate(count * 4), b = two.allocate(count * 4);
  auto const zeros = one.allocate(count * 4), more_zeros = two.allocate(count * 4);
  for (bool const declares : {true, false}) {
    CAPTURE(declares);
    stream first, second, third;
    handshake with_first, with_second;
    {
      shared_call call(&first);
      call.reads(zeros).writes(a);
      launch(call, copy_late, 1, 1, for_kernels(zeros), for_kernels(a), count, 4u,
             with_first.data());
    }
    {
      shared_call call(&second);
      call.reads(more_zeros).writes(b);
      launch(call, copy_late, 1, 1, for_kernels(more_zeros), for_kernels(b), count, 7u,
             with_second.data());
    }
    if (declares) {
      shared_call call(&third);
      call.reads(a).reads_writes(b);
      launch(call, mix_words, 1, 32, for_kernels(b), for_kernels(a), 0, count, 1u);
    } else {
      launch({.grid = 1, .block = 32, .on = &third}, mix_words, for_kernels(b), for_kernels(a),
             std::uint64_t(0), count, 1u);
    }
    with_second.let_go();
    CHECK(!third.done());
    with_first.let_go();
    two.synchronize(third);
    std::uint64_t wrong = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      wrong += b.as<std::uint32_t>()[i] != 7 * 3 + 4 + i + 1;
    CHECK(wrong == 0);
    one.synchronize();
  }
}

TEST_CASE("streams: an object stays for a launch that is behind another stream's") {
  two_streams s;
  s.launch_late(true);
  s.launch_next(true);
  std::atomic<bool> is_gone{false};
  std::thread remover([&] {
    CHECK(s.middle.unmap() == 0);
    is_gone = true;
  });
  for (int i = 0; i < 2'000; ++i) ::sched_yield();
  CHECK(!is_gone);
  s.with.let_go();
  remover.join();
  s.memory.synchronize(s.b);
  CHECK(count_other_than(s.to, 6) == 0);
}

TEST_CASE("streams: no update of many threads' launches is lost, if one is made after the other") {
  shared_memory memory(small_blocks());
  constexpr std::uint64_t count = 2000;
  constexpr unsigned threads = 4, objects = 3;
  unsigned const rounds = scaled(100, 15);
  std::vector<mapping> counters;
  for (unsigned n = 0; n < objects; ++n) counters.push_back(memory.allocate(count * 4));
  std::mutex one_at_a_time;
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      stream own;
      std::mt19937_64 random(seed() + t);
      for (unsigned i = 0; i < rounds; ++i) {
        auto const& to = counters[i % objects];
        {
          std::lock_guard const lock(one_at_a_time);
          shared_call call(&own);
          // Another object keeps it behind launches that do not touch its own.
          call.reads_writes(to).reads(counters[random() % objects]);
          launch(call, add_to_all, 1, 32, for_kernels(to), count, 1u);
        }
        if (random() % 16 == 0) memory.synchronize(own);
      }
      own.synchronize();
    });
  for (auto& t : all) t.join();
  memory.synchronize();
  for (unsigned n = 0; n < objects; ++n)
    CHECK(count_other_than(counters[n], threads * ((rounds + objects - 1 - n) / objects)) == 0);
}

namespace {
__global__ void fail_late(std::uint32_t* words, std::uint32_t* handshake) {
  wait_in_kernel(handshake[1], 1);
  words[0] = 4;
  __trap();
}
}  // namespace

TEST_CASE("streams: a launch gets on behind a call that fails (emulated device)") {
  if (current_device().kind != "emulated") return;  // a GPU's context is lost
  two_streams s;
  {
    shared_call call(&s.a);
    call.writes(s.middle);
    launch(call, fail_late, 1, 1, for_kernels(s.middle), s.with.data());
  }
  s.launch_next(true);
  s.with.let_go();
  CHECK_NOTHROW(s.memory.synchronize(s.b));
  CHECK(s.to.as<std::uint32_t>()[0] == 5);
  CHECK_THROWS_AS(s.a.synchronize(), device_error);
}

namespace {

/// Random launches on many streams. The objects must be as if they had run one after the other.
class many_streams {
 public:
  many_streams(std::uint64_t seed, mapping_config const& c) : random_(seed), memory_(c) {
    for (unsigned n = 0; n < 4; ++n) {
      std::uint64_t const count = 1 + below(12'000);
      objects_.push_back({memory_.allocate(count * 4), std::vector<std::uint32_t>(count)});
    }
  }

  bool run(unsigned launches) {
    for (unsigned n = 0; n < launches; ++n) {
      launch_any();
      if (below(12) == 0 && !look()) return false;
    }
    memory_.synchronize();
    for (auto const& o : objects_) {
      if (std::memcmp(o.shared.data(), o.plain.data(), o.shared.size()) != 0) return false;
    }
    return true;
  }

 private:
  struct twin {
    mapping shared;
    std::vector<std::uint32_t> plain;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void launch_any() {
    auto& to = objects_[below(objects_.size())];
    auto& from = objects_[below(objects_.size())];
    std::uint64_t const most = std::min(to.plain.size(), from.plain.size());
    std::uint64_t const first = below(most), count = 1 + below(most - first);
    auto const salt = static_cast<std::uint32_t>(random_());
    shared_call call(&streams_[below(streams_.size())]);
    // Whole objects, or what the kernel uses.
    if (below(3) == 0)
      call.reads(from.shared).reads_writes(to.shared);
    else
      call.reads(from.shared, first * 4, count * 4).reads_writes(to.shared, first * 4, count * 4);
    launch(call, mix_words, 1, 32, for_kernels(to.shared), for_kernels(from.shared), first, count,
           salt);
    for (auto i = first; i < first + count; ++i)
      to.plain[i] = to.plain[i] * 3 + from.plain[i] + static_cast<std::uint32_t>(i) + salt;
  }

  /// By a call that waits for those that use the bytes.
  bool look() {
    auto& o = objects_[below(objects_.size())];
    std::vector<std::uint32_t> copy(o.plain.size());
    return memory_.copy(copy.data(), o.shared.data(), o.shared.size()) == 0 && copy == o.plain;
  }

  std::mt19937_64 random_;
  shared_memory memory_;
  std::array<stream, 5> streams_;
  std::vector<twin> objects_;
};

}  // namespace

TEST_CASE("streams: random launches on many streams are as if they ran one after the other") {
  CAPTURE(seed());
  for (unsigned n = 0; n < scaled(30, 6); ++n) {
    CAPTURE(n);
    std::mt19937_64 random(seed() + n);
    auto c = small_blocks();
    coherence_protocol const protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                            coherence_protocol::rolling};
    c.protocol = protocols[random() % 3];
    auto const tier = random() % 4;
    if (tier == 0) c.device_memory = 1;  // all at the host
    if (tier == 1 && !separate_sides) {  // chunks move: room for two objects, and for one more
      c.device_memory = 4 << 20;
      c.host_memory = 2 << 20;
    }
    REQUIRE(many_streams(random(), c).run(60));
  }
}
