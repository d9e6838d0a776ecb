// Objects in managed memory: what CPU, kernels and files see of them, and what they cannot do.
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/mix_by_windows.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

/// Budgets that nothing fits, as they have no effect.
mapping_config managed() {
  auto c = tight(2 * mebi, 0);
  c.backing = memory_backing::managed;
  return c;
}

bool is(mapping const& m, words const& expected) {
  return m.size() == expected.size() * 4 &&
         std::equal(expected.begin(), expected.end(), m.as<std::uint32_t>());
}

void add(mapping const& m, std::uint64_t first, std::uint64_t count, std::uint32_t what) {
  shared_call call;
  call.reads_writes(m, first * 4, count * 4);
  launch(call, add_to_all, dim3(4), dim3(64), m.as<std::uint32_t>() + first, count, what);
}

bool moved_nothing(mapping_statistics const& s) {
  return s.bytes_h2d + s.bytes_d2h + s.moves + s.faults_read + s.faults_write == 0;
}

}  // namespace

TEST_CASE("managed: CPU and kernels use one memory, and nothing is copied") {
  shared_memory memory(managed());
  mapping m = memory.allocate(9 * mebi + 4);
  auto plain = numbers(m.size() / 4);
  CHECK(std::all_of(m.as<std::uint32_t>(), m.as<std::uint32_t>() + plain.size(),
                    [](auto w) { return w == 0; }));
  std::ranges::copy(plain, m.as<std::uint32_t>());
  for (std::uint32_t round = 1; round < 4; ++round) {
    launch(add_to_all, 4, 64, m.as<std::uint32_t>(), plain.size(), round);
    for (auto& w : plain) w += round;
    memory.synchronize();
    CHECK(is(m, plain));
    m.as<std::uint32_t>()[round] += 7;
    plain[round] += 7;
  }
  CHECK(moved_nothing(memory.stats()));
  CHECK(memory.stats().calls == 3);
  auto const lies = m.tiers();
  CHECK(lies.host == 10 * mebi);
  CHECK(lies.device + lies.away == 0);
  CHECK(memory.find(m.as<std::byte>() + 5).offset == 5);
  CHECK(memory.find(&plain).object == nullptr);
  CHECK(m.unmap() == 0);
  CHECK(memory.tiers().host == 0);
}

TEST_CASE("managed: memory that was used before is zeros again") {
  shared_memory memory(managed());
  for (unsigned round = 0; round < 3; ++round) {
    mapping const m = memory.allocate(3 * mebi);
    auto* const w = m.as<std::uint32_t>();
    CHECK(std::all_of(w, w + 3 * mebi / 4, [](auto word) { return word == 0; }));
    launch(store_to_all, 4, 64, w, 3 * mebi / 4, 9u);
    memory.synchronize();
  }
}

TEST_CASE("managed: options of other memory have no effect") {
  auto settings = managed();
  settings.protocol = coherence_protocol::batch;
  settings.fault_handler = fault_handling::userfault;
  settings.spill_dir = "/tmp";
  shared_memory memory(settings);
  mapping a = memory.allocate(mebi, {.protocol = coherence_protocol::lazy, .wait_on_touch = false});
  CHECK(a.advise(0, mebi, memory_advice::host) == 0);
  CHECK(a.prefetch_to_device(0, mebi) == 0);
  a.as<std::uint32_t>()[3] = 1;
  add(a, 0, mebi / 4, 4);
  CHECK(a.acquire(0, mebi, access::read_write) == 0);
  CHECK(a.as<std::uint32_t>()[3] == 5);
  named_file const file(numbers(1000));
  CHECK(is(memory.map(file.path()), numbers(1000)));
  // System calls wait for nothing.
  CHECK(memory.notes().empty());
}

TEST_CASE("managed: a file is read by map(), and pages that changed are written") {
  auto content = numbers(5 * mebi / 4 + 3);
  for (auto const detection : {write_detection::hash, write_detection::all}) {
    named_file const file(content);
    auto settings = managed();
    settings.detect_writes = detection;
    shared_memory memory(settings);
    mapping m = memory.map(file.path(), {.access = access::read_write});
    CHECK(is(m, content));
    CHECK(m.stats().fill_bytes == content.size() * 4);
    auto expected = content;
    add(m, 2048, 10, 5);           // a kernel
    m.as<std::uint32_t>()[9] = 0;  // the CPU
    m.as<std::uint32_t>()[content.size() - 1] = 1;
    for (unsigned i = 2048; i < 2058; ++i) expected[i] += 5;
    expected[9] = 0;
    expected.back() = 1;
    CHECK(m.sync() == 0);
    CHECK(file.content() == expected);
    bool const is_exact = detection == write_detection::hash;
    CHECK(m.stats().writeback_pages == (is_exact ? 3 : (content.size() * 4 + 4095) / 4096));
    // Others write to a page that stays as it was here.
    file.write({77}, 3 * mebi);
    m.as<std::uint32_t>()[0] = 4;
    expected[0] = 4;
    if (is_exact) expected[3 * mebi / 4] = 77;
    CHECK(m.write_back() == 0);
    CHECK(file.content() == expected);
    CHECK(m.unwritten().size() == 1);
    CHECK(m.unmap() == 0);
    CHECK(file.content() == expected);
  }
}

TEST_CASE("managed: a file that is only written is not read, and keeps what nobody writes") {
  auto content = numbers(3 * mebi / 4);
  named_file const file(content);
  shared_memory memory(managed());
  mapping m = memory.map(file.path(), {.access = access::write});
  add(m, 0, 0, 0);
  launch(store_to_all, 1, 64, m.as<std::uint32_t>() + 5000, 100, 8u);
  memory.synchronize();
  m.as<std::uint64_t>()[0] = 6;
  CHECK(m.unmap() == 0);
  std::fill_n(content.begin() + 5000, 100, 8u);
  content[0] = 6;
  content[1] = 0;
  CHECK(file.content() == content);
  CHECK(memory.stats().fill_bytes == 0);
  // One that is made for the object.
  named_file const made;
  mapping n = memory.map(made.path(), {.access = access::write, .create = true, .length = mebi});
  launch(store_to_all, 1, 64, n.as<std::uint32_t>(), 10, 8u);
  CHECK(n.sync() == 0);
  words expected(mebi / 4);
  std::fill_n(expected.begin(), 10, 8u);
  CHECK(made.content() == expected);
  CHECK(n.stats().writeback_pages == 1);
}

TEST_CASE("managed: scratch is never written, and discard() gives the first bytes back") {
  auto const content = numbers(mebi / 4);
  named_file const file(content), other(content);
  shared_memory memory(managed());
  mapping s = memory.map(file.path(), {.access = access::read_write, .scratch = true});
  CHECK(is(s, words(content.size())));
  add(s, 0, content.size(), 1);
  memory.synchronize();
  CHECK(is(s, words(content.size(), 1)));
  CHECK(s.discard() == 0);
  CHECK(is(s, words(content.size())));
  CHECK(s.unmap() == 0);
  CHECK(file.content() == content);
  mapping m = memory.map(other.path(), {.access = access::read_write});
  add(m, 0, content.size(), 1);
  memory.synchronize();
  CHECK(m.discard() == 0);
  CHECK(is(m, content));
}

TEST_CASE("managed: refresh() reads a file anew, if nobody may have changed the object") {
  auto content = numbers(mebi / 4);
  named_file const file(content), other(content);
  shared_memory memory(managed());
  mapping m = memory.map(file.path());
  let_stamps_age(file.path());
  content[100] = 0;
  file.write({0}, 400);
  CHECK(m.as<std::uint32_t>()[100] == 101);
  CHECK(m.refresh() == 0);
  CHECK(is(m, content));
  set_size(file.path(), 4096);
  CHECK(m.refresh() == -ESTALE);
  CHECK(is(m, content));
  CHECK(m.remap(access::read_write) == -EOPNOTSUPP);
  mapping w = memory.map(other.path(), {.access = access::read_write});
  CHECK(w.refresh() == -EOPNOTSUPP);
  CHECK(w.remap(access::write) == -EOPNOTSUPP);
  CHECK(w.remap(access::read_write) == 0);  // writes back
}

TEST_CASE("managed: I/O calls take objects, and wait for calls that use them") {
  auto const content = numbers(3 * mebi / 4);
  named_file const file(content);
  named_file const to;
  shared_memory memory(managed());
  mapping const m = memory.allocate(3 * mebi);
  int const fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  int const out = ::open(to.path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(memory.read(fd, m.data(), 3 * mebi) == std::int64_t(3 * mebi));
  CHECK(is(m, content));
  launch(add_to_all, 4, 64, m.as<std::uint32_t>(), content.size(), 2u);
  CHECK(memory.write(out, m.data(), 3 * mebi) == std::int64_t(3 * mebi));
  auto expected = content;
  for (auto& w : expected) w += 2;
  CHECK(to.content() == expected);
  CHECK(memory.pread(fd, m.as<std::byte>() + 2 * mebi, 2 * mebi, 0) == -EFAULT);
  CHECK(memory.set(m.data(), 0, mebi) == 0);
  CHECK(memory.copy(m.as<std::byte>() + mebi, m.data(), mebi) == 0);
  words plain(mebi / 4, 1u);
  CHECK(memory.copy(plain.data(), m.as<std::byte>() + mebi, mebi) == 0);
  CHECK(plain == words(mebi / 4));
  // And the system's own.
  CHECK(::pread(fd, m.data(), mebi, 0) == ssize_t(mebi));
  CHECK(std::equal(content.begin(), content.begin() + mebi / 4, m.as<std::uint32_t>()));
  ::close(fd);
  ::close(out);
}

TEST_CASE("managed: windows go through files") {
  auto const content = numbers(7 * mebi / 4);
  named_file const from(content), to(words(content.size()));
  shared_memory memory(managed());
  mapping in = memory.map(from.path());
  mapping out = memory.map(to.path(), {.access = access::read_write});
  check_mix_by_windows(memory, in, out, content, to);
}

TEST_CASE("managed: one launch uses objects of both kinds, and many threads make others") {
  shared_memory memory(managed());
  shared_memory other(tight(8 * mebi, 8 * mebi));
  mapping const a = memory.allocate(2 * mebi), b = other.allocate(2 * mebi);
  std::fill_n(a.as<std::uint32_t>(), mebi / 2, 3u);
  std::fill_n(b.as<std::uint32_t>(), mebi / 2, 4u);
  launch(mix_words, 4, 64, a.as<std::uint32_t>(), b.as<std::uint32_t const>(), std::uint64_t{0},
         mebi / 2, 0u);
  memory.synchronize();
  CHECK(a.as<std::uint32_t>()[5] == 18);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&memory, t] {
      for (unsigned round = 0; round < 8; ++round) {
        mapping const m = memory.allocate((t + 1) * 100'000 * 4);
        add(m, 0, m.size() / 4, t + 1);
        this_thread_stream().synchronize();
        if (!is(m, words(m.size() / 4, t + 1))) std::abort();
      }
    });
  }
  for (auto& t : threads) t.join();
}
