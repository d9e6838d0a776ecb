// Shared memory: one pointer for CPU and kernels, what moves and when, bad input.
#include <gpufs/mapping.hpp>
#include <gpufs/settings.hpp>

#include <test/mapping/kernels.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;

mapping_config with(coherence_protocol p, std::uint64_t block,
                    std::uint32_t rolling = rolling_automatic) {
  mapping_config c;
  c.protocol = p;
  c.coherence_block = block;
  c.rolling_size = rolling;
  return c;
}

struct vectors {
  explicit vectors(shared_memory& m, std::uint64_t elements)
      : n(elements),
        a(m.allocate(n * sizeof(float))),
        b(m.allocate(n * sizeof(float))),
        c(m.allocate(n * sizeof(float))) {}
  std::uint64_t n;
  mapping a, b, c;

  /// The CPU writes every `stride`-th element of a and b, both side by side.
  void produce(std::uint64_t stride = 1) {
    for (std::uint64_t i = 0; i < n; i += stride) {
      a.as<float>()[i] = float(i % 1024);
      b.as<float>()[i] = float(i / 1024 % 1024);
    }
  }
  void call(bool is_declared) {
    if (is_declared) {
      shared_call call;
      call.reads(a).reads(b).writes(c);
      launch(call, add_vectors, 4, 64, a.as<float const>(), b.as<float const>(), c.as<float>(), n);
    } else {
      launch(add_vectors, 4, 64, a.as<float const>(), b.as<float const>(), c.as<float>(), n);
    }
  }
  std::uint64_t wrong(std::uint64_t stride = 1) {
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < n; i += stride)
      count += c.as<float>()[i] != float(i % 1024) + float(i / 1024 % 1024);
    return count;
  }
};

}  // namespace

TEST_CASE(
    "shared memory: vector addition is right, and moves the bytes that ADSM's protocols must "
    "move") {
  for (bool const is_declared : {false, true}) {
    for (std::uint64_t const block : {4 * kibi, 64 * kibi, 1024 * kibi}) {
      for (std::uint32_t const rolling : {2u, 6u, 1000u}) {
        CAPTURE(is_declared);
        CAPTURE(block);
        CAPTURE(rolling);
        shared_memory memory(with(coherence_protocol::rolling, block, rolling));
        vectors v(memory, 256 * kibi + 100);
        std::uint64_t const bytes = v.a.size(), blocks = (bytes + block - 1) / block;
        v.produce();
        v.call(is_declared);
        memory.synchronize();
        CHECK(v.wrong() == 0);
        auto const s = memory.stats();
        CHECK(s.bytes_h2d == 2 * bytes);
        CHECK(s.bytes_d2h == bytes);
        CHECK(s.faults_write == 2 * blocks);
        CHECK(s.faults_read == blocks);
        CHECK(s.fault_read_bytes == bytes);
        CHECK(s.faults_spurious == 0);
        std::uint64_t const kept = std::min<std::uint64_t>(rolling, 2 * blocks);
        CHECK(s.release_blocks == kept);
        CHECK(s.eviction_blocks == 2 * blocks - kept);
        CHECK(s.release_bytes + s.eviction_bytes == s.bytes_h2d);
        CHECK(s.calls == 1);
        CHECK(s.declared_calls == unsigned(is_declared));
        CHECK(v.a.stats().bytes_h2d == bytes);
        CHECK(v.c.stats().bytes_h2d == 0);
        // What a kernel may have changed has to be fetched again, and only that.
        CHECK(v.a.as<float>()[1] == 1);
        CHECK((memory.stats() - s).bytes_d2h == (is_declared ? 0 : std::min(block, bytes)));
      }
    }
  }
}

TEST_CASE(
    "shared memory: with a rolling size of 1 two streams fault at each element, as ADSM says") {
  constexpr std::uint64_t block = 4 * kibi, stride = 37;
  shared_memory memory(with(coherence_protocol::rolling, block, 1));
  vectors v(memory, 16 * kibi);
  v.produce(stride);
  std::uint64_t const written = 2 * ((v.n + stride - 1) / stride);
  v.call(true);
  memory.synchronize();
  CHECK(v.wrong(stride) == 0);
  auto const s = memory.stats();
  CHECK(s.faults_write == written);
  CHECK(s.bytes_h2d == written * block);
  CHECK(s.eviction_blocks == written - 1);
}

TEST_CASE("shared memory: lazy objects move as a whole, batch objects at every call") {
  for (bool const is_declared : {false, true}) {
    CAPTURE(is_declared);
    {
      shared_memory memory(with(coherence_protocol::lazy, block_automatic));
      vectors v(memory, 100 * kibi + 1);
      v.produce();
      v.call(is_declared);
      memory.synchronize();
      CHECK(v.wrong() == 0);
      auto const s = memory.stats();
      CHECK(s.bytes_h2d == 2 * v.a.size());
      CHECK(s.bytes_d2h == v.a.size());
      CHECK(s.faults_write == 2);
      CHECK(s.faults_read == 1);
    }
    shared_memory memory(with(coherence_protocol::batch, block_automatic));
    vectors v(memory, 100 * kibi + 1);
    for (unsigned round = 1; round <= 3; ++round) {
      v.produce();
      v.call(is_declared);
      memory.synchronize();
      CHECK(v.wrong() == 0);
      auto const s = memory.stats();
      CHECK(s.bytes_h2d == round * 3 * v.a.size());
      CHECK(s.bytes_d2h == round * (is_declared ? 1 : 3) * v.a.size());
      CHECK(s.faults_read + s.faults_write + s.faults_spurious == 0);
    }
  }
}

TEST_CASE("shared memory: batch objects of several calls without a synchronize() move once") {
  shared_memory memory(with(coherence_protocol::batch, block_automatic));
  auto words = memory.allocate(4000), other = memory.allocate(4000);
  for (unsigned i = 0; i < 1000; ++i) {
    words.as<std::uint32_t>()[i] = i;
    other.as<std::uint32_t>()[i] = 7;
  }
  for (unsigned round = 0; round < 3; ++round)
    launch(mix_words, 2, 32, words.as<std::uint32_t>(), other.as<std::uint32_t const>(), 0, 1000,
           round);
  memory.synchronize();
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    std::uint32_t expected = i;
    for (std::uint32_t round = 0; round < 3; ++round) expected = expected * 3 + 7 + i + round;
    wrong += words.as<std::uint32_t>()[i] != expected;
  }
  CHECK(wrong == 0);
  CHECK(memory.stats().bytes_h2d == 8000);
  CHECK(memory.stats().bytes_d2h == 8000);
}

TEST_CASE("shared memory: objects are zeros on both sides, and allocating moves nothing") {
  for (auto const p :
       {coherence_protocol::batch, coherence_protocol::lazy, coherence_protocol::rolling}) {
    shared_memory memory(with(p, block_automatic));
    auto const large = memory.allocate(1ull << 32);
    auto const words = memory.allocate(3 << 20);
    auto const sum = memory.allocate(sizeof(std::uint64_t));
    CHECK(memory.stats().bytes_h2d == 0);
    if (p != coherence_protocol::batch) {
      // Nothing but the read of `large` may happen here: batch would send 4 GiB.
      CHECK(large.as<std::uint64_t>()[large.size() / 8 - 1] == 0);
      shared_call call;
      call.reads(words).writes(sum);
      launch(call, sum_words, 1, 32, words.as<std::uint32_t const>(), words.size() / 4,
             sum.as<std::uint64_t>());
      memory.synchronize();
      CHECK(*sum.as<std::uint64_t>() == 0);
      CHECK(memory.stats().bytes_h2d == 0);
      CHECK(memory.stats().bytes_d2h == sum.size());
    }
  }
}

TEST_CASE("shared memory: addresses are given again as zeros, and objects do not overlap") {
  shared_memory memory;
  void* before = nullptr;
  for (unsigned round = 0; round < 20; ++round) {
    auto m = memory.allocate(100 * kibi);
    auto other = memory.allocate(1);
    if (round != 0) CHECK(m.data() == before);
    before = m.data();
    CHECK(reinterpret_cast<std::uintptr_t>(m.data()) % (2 << 20) == 0);
    std::uint64_t used = 0;
    for (std::uint64_t i = 0; i < m.size(); ++i) used += m.as<unsigned char>()[i] != 0;
    CHECK(used == 0);
    for (std::uint64_t i = 0; i < m.size(); ++i) m.as<unsigned char>()[i] = 255;
    launch(add_vectors, 1, 32, m.as<float const>(), m.as<float const>(), m.as<float>(), 100);
    memory.synchronize();
    CHECK(m.unmap() == 0);
    CHECK(m.data() == nullptr);
    CHECK(m.size() == 0);
    CHECK(m.unmap() == 0);
  }
}

TEST_CASE("shared memory: find() gives object and offset of an address") {
  shared_memory memory;
  auto const m = memory.allocate(1000);
  auto const found = memory.find(m.as<char>() + 999);
  CHECK(found.object == m.data());
  CHECK(found.offset == 999);
  CHECK(found.size == 1000);
  CHECK(memory.find(m.as<char>() + 1000).object == nullptr);
  int on_stack = 0;
  CHECK(memory.find(&on_stack).object == nullptr);
}

TEST_CASE("shared memory: acquire() makes blocks ready, so that no access faults") {
  constexpr std::uint64_t block = 4 * kibi;
  shared_memory memory(with(coherence_protocol::rolling, block, 100));
  auto words = memory.allocate(10 * block);
  auto const other = memory.allocate(10 * block);
  auto const count = words.size() / 4;
  launch(mix_words, 4, 32, words.as<std::uint32_t>(), other.as<std::uint32_t const>(), 0, count, 5);
  auto* const w = words.as<std::uint32_t>();
  auto const before = memory.stats();
  CHECK(words.acquire(block / 2, 2 * block, gpufs::access::read) == 0);
  CHECK((memory.stats() - before).acquire_blocks == 3);
  CHECK(w[block / 8] == block / 8 + 5);
  CHECK(w[3 * block / 4 - 1] == 3 * block / 4 - 1 + 5);
  CHECK((memory.stats() - before).faults_read == 0);
  // Blocks that are overwritten as a whole are not fetched.
  CHECK(words.acquire(5 * block - 4, 2 * block + 8, gpufs::access::write) == 0);
  CHECK((memory.stats() - before).acquire_blocks == 5);
  for (std::uint64_t i = 5 * block / 4 - 1; i < 7 * block / 4 + 1; ++i) w[i] = 1;
  CHECK((memory.stats() - before).faults_write == 0);
  CHECK(w[5 * block / 4 - 2] == 5 * block / 4 - 2 + 5);
  CHECK(words.prefetch_to_device(0, words.size()) == 0);
  CHECK((memory.stats() - before).release_blocks == 4);
  launch(mix_words, 4, 32, words.as<std::uint32_t>(), other.as<std::uint32_t const>(), 0, count, 0);
  memory.synchronize();
  CHECK((memory.stats() - before).release_blocks == 4);
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    bool const is_one = i >= 5 * block / 4 - 1 && i < 7 * block / 4 + 1;
    wrong += w[i] != (is_one ? 1 : i + 5) * 3 + i;
  }
  CHECK(wrong == 0);
}

TEST_CASE("shared memory: parts of an object that no call uses stay with the CPU") {
  constexpr std::uint64_t block = 4 * kibi;
  shared_memory memory(with(coherence_protocol::rolling, block, 100));
  auto const words = memory.allocate(8 * block), other = memory.allocate(8 * block);
  auto* const w = words.as<std::uint32_t>();
  std::uint64_t const per_block = block / 4;
  for (std::uint32_t i = 0; i < words.size() / 4; ++i) w[i] = i;
  shared_call call;
  call.reads_writes(words, 2 * block, 3 * block).reads(other, 2 * block, 3 * block);
  launch(call, mix_words, 4, 32, words.as<std::uint32_t>(), other.as<std::uint32_t const>(),
         2 * per_block, 3 * per_block, 0);
  // Not used by the call, so written and read while it runs.
  w[0] = 100;
  w[7 * per_block] += 1;
  memory.synchronize();
  CHECK(w[0] == 100);
  CHECK(w[7 * per_block] == 7 * per_block + 1);
  CHECK(w[2 * per_block] == 2 * per_block * 4);
  CHECK(w[5 * per_block - 1] == (5 * per_block - 1) * 4);
  CHECK(w[5 * per_block] == 5 * per_block);
  CHECK(memory.stats().release_blocks == 3);
  CHECK(memory.stats().fault_read_blocks == 2);
}

TEST_CASE("shared memory: a store that crosses two blocks gets on with a rolling size of 1") {
  constexpr std::uint64_t block = 4 * kibi;
  shared_memory memory(with(coherence_protocol::rolling, block, 1));
  auto const bytes = memory.allocate(4 * block);
  struct [[gnu::packed]] crossing {
    std::uint64_t word;
  };
  auto* const at = reinterpret_cast<crossing*>(bytes.as<char>() + block - 3);
  at->word = 0x1122334455667788;
  launch(mix_words, 1, 32, bytes.as<std::uint32_t>(), bytes.as<std::uint32_t const>(), 0, 1, 0);
  memory.synchronize();
  CHECK(std::uint64_t{at->word} == 0x1122334455667788);
}

TEST_CASE("shared memory: calls on two streams each wait for what the CPU has written") {
  shared_memory memory(with(coherence_protocol::rolling, 4 * kibi, 3));
  constexpr std::uint64_t count = 5000;
  auto const zeros = memory.allocate(count * 4);
  auto const first = memory.allocate(count * 4), second = memory.allocate(count * 4);
  stream one, two;
  for (std::uint32_t round = 0; round < 20; ++round) {
    for (std::uint32_t i = 0; i < count; ++i) {
      first.as<std::uint32_t>()[i] = i + round;
      second.as<std::uint32_t>()[i] = i * round;
    }
    {
      shared_call a(&one), b(&two);
      a.reads_writes(first).reads(zeros);
      b.reads_writes(second).reads(zeros);
      launch(a, mix_words, 2, 32, first.as<std::uint32_t>(), zeros.as<std::uint32_t const>(), 0,
             count, 1);
      launch(b, mix_words, 2, 32, second.as<std::uint32_t>(), zeros.as<std::uint32_t const>(), 0,
             count, 2);
    }
    memory.synchronize(two);
    memory.synchronize(one);
    std::uint64_t wrong = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      wrong += first.as<std::uint32_t>()[i] != (i + round) * 3 + i + 1;
      wrong += second.as<std::uint32_t>()[i] != i * round * 3 + i + 2;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("shared memory: what the CPU writes to a batch object after a refused launch counts") {
  for (bool const is_declared : {false, true}) {
    CAPTURE(is_declared);
    shared_memory memory(with(coherence_protocol::batch, block_automatic));
    auto const m = memory.allocate(4 * kibi);
    auto* const words = m.as<std::uint32_t>();
    words[0] = 1;
    // Its object fits nowhere, so it refuses every launch that may use it.
    mapping_config nowhere;
    nowhere.device_memory = 1;
    nowhere.host_memory = 0;
    auto refuses = std::make_unique<shared_memory>(nowhere);
    auto large = refuses->allocate(4 * kibi);
    auto const is_refused = [&] {
      if (is_declared) return shared_call().reads_writes(m).reads(large).release() == -ENOMEM;
      try {
        launch(add_to_all, 1, 32, words, std::uint64_t(1), 1u);
        return false;
      } catch (shared_memory_error const& e) {
        return e.code() == ENOMEM;
      }
    };
    CHECK(is_refused());
    words[0] = 5;
    memory.synchronize();
    CHECK(words[0] == 5);
    CHECK(is_refused());
    words[0] = 7;
    CHECK(large.unmap() == 0);
    refuses.reset();
    launch(add_to_all, 1, 32, words, std::uint64_t(1), 1u);
    memory.synchronize();
    CHECK(words[0] == 8);
  }
}

TEST_CASE("shared memory: a batch object is whole after calls that use parts of it") {
  shared_memory memory(with(coherence_protocol::batch, 4 * kibi));
  auto words = memory.allocate(64 * kibi);
  auto* const w = words.as<std::uint32_t>();
  w[1024] = 2;
  shared_call call;
  call.reads_writes(words, 4 * kibi, 4 * kibi);
  launch(call, mix_words, 1, 32, w, w, 1024, 1, 0);
  // Of another part, and of no bytes: the call's bytes are not lost.
  CHECK(words.acquire(0, 0, gpufs::access::read) == 0);
  CHECK(words.acquire(32 * kibi, 4 * kibi, gpufs::access::read) == 0);
  memory.synchronize();
  CHECK(w[1024] == 2 * 3 + 2 + 1024);
  launch(mix_words, 1, 32, w, w, 1024, 1, 0);
  memory.synchronize();
  CHECK(w[1024] == (2 * 3 + 2 + 1024) * 4 + 1024);
}

namespace {
__global__ void trap_after_store(std::uint32_t* to) {
  *to = 1;
  __trap();
}
}  // namespace

TEST_CASE("shared memory: what the CPU writes after a failed kernel counts (emulated device)") {
  if (current_device().kind != "emulated") return;
  for (auto const p : {coherence_protocol::batch, coherence_protocol::rolling}) {
    shared_memory memory(with(p, 4 * kibi));
    auto const words = memory.allocate(4 * kibi), zeros = memory.allocate(4 * kibi);
    auto* const w = words.as<std::uint32_t>();
    launch(trap_after_store, 1, 1, w);
    CHECK_THROWS_AS(memory.synchronize(), device_error);
    w[0] = 42;
    launch(mix_words, 1, 32, w, zeros.as<std::uint32_t const>(), 0, 1, 0);
    memory.synchronize();
    CHECK(w[0] == 126);
  }
}

TEST_CASE("shared memory: what acquire() made ready stays so, however small the rolling size") {
  shared_memory memory(with(coherence_protocol::rolling, 4 * kibi, 2));
  auto bytes = memory.allocate(64 * kibi);
  CHECK(bytes.acquire(0, bytes.size(), gpufs::access::write) == 0);
  CHECK(memory.stats().eviction_blocks == 0);
  CHECK(memory.stats().acquire_blocks == 0);
  // A system call writes there.
  int const zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  CHECK(::read(zeros, bytes.data(), bytes.size()) == ssize_t(bytes.size()));
  ::close(zeros);
  bytes.as<std::uint32_t>()[5] = 7;
  auto* const w = bytes.as<std::uint32_t>();
  launch(mix_words, 1, 32, w, w, 5, 1, 0);
  memory.synchronize();
  CHECK(w[5] == 7 * 4 + 5);
  CHECK(memory.stats().release_blocks == 16);
  CHECK(memory.stats().faults_write == 0);
}

TEST_CASE("shared memory: a call ends although its launch is refused") {
  shared_memory memory(with(coherence_protocol::rolling, 4 * kibi));
  auto words = memory.allocate(4 * kibi);
  auto* const w = words.as<std::uint32_t>();
  w[0] = 5;
  shared_call call;
  call.writes(words);
  CHECK_THROWS_AS(launch(call, mix_words, 1, 5000, w, w, 0, 1, 0), device_error);
  CHECK(words.acquire(0, 4, gpufs::access::read) == 0);
  CHECK(w[0] == 5);
  CHECK_THROWS_AS(launch(mix_words, 1, 5000, w, w, 0, 1, 0), device_error);
  CHECK(w[0] == 5);
  CHECK(words.unmap() == 0);
}

TEST_CASE("shared memory: a call whose object has gone is refused") {
  shared_memory memory;
  auto words = memory.allocate(4 * kibi);
  shared_call call;
  call.writes(words);
  CHECK(words.unmap() == 0);
  auto const other = memory.allocate(4 * kibi);  // at the same address
  CHECK(call.release() == -EINVAL);
}

TEST_CASE("shared memory: an object counts a call once, whatever parts the call declares") {
  shared_memory memory;
  auto const words = memory.allocate(100 * kibi), other = memory.allocate(4 * kibi);
  launch(sum_words, 1, 32, words.as<std::uint32_t const>(), 0, other.as<std::uint64_t>());
  shared_call call;
  call.reads(words).writes(words, 0, 8).writes(words, 90 * kibi, 8).reads(other, 0, 0);
  launch(call, mix_words, 1, 32, words.as<std::uint32_t>(), words.as<std::uint32_t const>(), 0, 1,
         0);
  memory.synchronize();
  CHECK(memory.stats().calls == 2);
  CHECK(memory.stats().declared_calls == 1);
  CHECK(words.stats().calls == 2);
  CHECK(words.stats().declared_calls == 1);
  CHECK(other.stats().calls == 1);
  CHECK(other.stats().declared_calls == 0);
}

TEST_CASE("shared memory: a mapping that is assigned to gives its object up") {
  mapping_config small;
  small.device_memory = 4 << 20;
  shared_memory memory(small);
  auto first = memory.allocate(3 << 20);
  auto second = mapping();
  second = std::move(first);
  CHECK(first.data() == nullptr);
  second = mapping();
  CHECK(memory.find(second.data()).object == nullptr);
  auto const again = memory.allocate(4 << 20);
  CHECK(again.size() == 4 << 20);
}

TEST_CASE("shared memory: wrong settings and sizes are refused, and the message names them") {
  auto const says = [](auto const& make) -> std::string {
    try {
      make();
    } catch (std::exception const& e) {
      return e.what();
    }
    return "";
  };
  auto const refused = [&](auto change) {
    mapping_config c;
    change(c);
    return says([&] { shared_memory const memory(c); });
  };
  CHECK(refused([](auto& c) { c.address_space = 1 << 20; }) ==
        "address_space=1M: must be a multiple of 2M from 64G to 64T");
  CHECK(refused([](auto& c) { c.coherence_block = 5000; }) ==
        "coherence_block=5000: must be auto or a power of two from 4K to 32M");
  CHECK(refused([](auto& c) { c.rolling_size = ~0u; }).starts_with("rolling_size="));
  CHECK(refused([](auto& c) { c.rolling_per_object = 0; }).starts_with("rolling_per_object=0"));
  CHECK(refused([](auto& c) { c.rolling_patience = 0; }).starts_with("rolling_patience=0"));
  CHECK(refused([](auto& c) { c.chunk_size = 3 << 20; }) ==
        "chunk_size=3M: must be auto or a power of two from 2M to 1G");
  shared_memory memory;
  CHECK(says([&] { (void)memory.allocate(0); }) == "shared memory: 0 bytes asked for");
  CHECK(says([&] { (void)memory.allocate(1, {.block = 3}); }).starts_with("block=3: must be"));
  CHECK(says([&] { (void)memory.allocate(~0ull); }) ==
        "shared memory: no 18446744073709551615 addresses in a row; raise address_space");
  CHECK(mapping().acquire(0, 0, gpufs::access::read) == -EINVAL);
  auto m = memory.allocate(1000);
  CHECK(m.acquire(0, 1001, gpufs::access::read) == -EINVAL);
  CHECK(m.acquire(~0ull, 2, gpufs::access::read) == -EINVAL);
  CHECK(m.prefetch_to_device(1001, 0) == -EINVAL);
  CHECK(m.acquire(1000, 0, gpufs::access::read) == 0);
  shared_call beyond;
  beyond.reads(m, 999, 2);
  CHECK(beyond.release() == -EINVAL);
  shared_call twice;
  twice.reads(m);
  CHECK(twice.release() == 0);
  CHECK(twice.release() == -EINVAL);
  twice.launched();
  shared_call empty;
  empty.reads(mapping());
  CHECK(says([&] {
          launch(empty, sum_words, 1, 32, nullptr, 0, nullptr);
        }).starts_with("shared memory: a call declares bytes beyond an object"));
}
