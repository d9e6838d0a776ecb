// Objects in managed memory beside others in one shared_memory (map_options::backing).
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/mix_by_windows.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr auto both_backings = {memory_backing::automatic, memory_backing::managed};

map_options in(memory_backing backing, map_options o = {}) {
  o.backing = backing;
  return o;
}
map_options managed(map_options o = {}) { return in(memory_backing::managed, std::move(o)); }

bool is(mapping const& m, words const& expected) {
  return m.size() == expected.size() * 4 &&
         std::equal(expected.begin(), expected.end(), m.as<std::uint32_t>());
}

void put(mapping const& m, words const& content) {
  std::ranges::copy(content, m.as<std::uint32_t>());
}

/// As mix_words(), on the host.
void mix(words& to, words const& from, std::uint64_t count, std::uint32_t salt) {
  for (std::uint64_t i = 0; i < count; ++i)
    to[i] = to[i] * 3 + from[i] + static_cast<std::uint32_t>(i) + salt;
}

void mix(mapping const& to, mapping const& from, std::uint64_t count, std::uint32_t salt) {
  shared_call call;
  call.reads(from, 0, count * 4).reads_writes(to, 0, count * 4);
  launch(call, mix_words, dim3(4), dim3(64), to.as<std::uint32_t>(), from.as<std::uint32_t const>(),
         std::uint64_t{0}, count, salt);
}

bool moved_nothing(mapping_statistics const& s) {
  return s.bytes_h2d + s.bytes_d2h + s.moves + s.faults_read + s.faults_write == 0;
}

std::string refused(auto const& call) {
  try {
    static_cast<void>(call());
  } catch (config_error const& e) {
    return e.what();
  }
  return "";
}

/// The code of the error, 0: there was none.
int code_of(auto const& call) {
  try {
    static_cast<void>(call());
  } catch (shared_memory_error const& e) {
    return e.code();
  }
  return 0;
}

}  // namespace

TEST_CASE("mixed: one launch uses both kinds, declared or not, and counters add up") {
  for (auto const protocol :
       {coherence_protocol::batch, coherence_protocol::lazy, coherence_protocol::rolling}) {
    CAPTURE(int(protocol));
    shared_memory memory;
    mapping a = memory.allocate(3 * mebi, {.protocol = protocol});
    mapping b = memory.allocate(3 * mebi, managed({.protocol = protocol}));
    constexpr std::uint64_t count = 3 * mebi / 4;
    auto in_a = numbers(count), in_b = words(count, 7u);
    put(a, in_a);
    put(b, in_b);
    launch(mix_words, 4, 64, a.as<std::uint32_t>(), b.as<std::uint32_t const>(), std::uint64_t{0},
           count, 1u);
    mix(in_a, in_b, count, 1);
    mix(b, a, count, 2);
    mix(in_b, in_a, count, 2);
    memory.synchronize();
    CHECK(is(a, in_a));
    CHECK(is(b, in_b));
    // Only the managed object, and only the other one.
    mix(b, b, count, 3);
    mix(in_b, in_b, count, 3);
    mix(a, a, count, 4);
    mix(in_a, in_a, count, 4);
    CHECK(a.acquire(0, a.size(), access::read_write) == 0);
    CHECK(b.acquire(0, b.size(), access::read_write) == 0);
    CHECK(is(a, in_a));
    CHECK(is(b, in_b));
    CHECK(moved_nothing(b.stats()));
    CHECK(a.stats().bytes_h2d >= a.size());
    CHECK(memory.stats().bytes_h2d == a.stats().bytes_h2d);
    CHECK(memory.stats().bytes_d2h == a.stats().bytes_d2h);
    CHECK(memory.stats().calls == 4);
    CHECK(memory.stats().declared_calls == 3);
    CHECK(a.stats().calls == 3);
    CHECK(b.stats().calls == 3);
  }
}

TEST_CASE("mixed: addresses and tiers are those of the object's kind") {
  shared_memory memory;
  mapping const before = memory.allocate(mebi, managed());
  mapping a = memory.allocate(3 * mebi);
  mapping b = memory.allocate(5 * mebi, managed());
  for (mapping const* const m : {&before, &std::as_const(a), &std::as_const(b)}) {
    auto const last = memory.find(m->as<std::byte>() + m->size() - 1);
    CHECK(last.object == m->data());
    CHECK(last.offset == m->size() - 1);
    CHECK(last.size == m->size());
    CHECK(memory.find(m->as<std::byte>() + m->size()).object == nullptr);
  }
  int plain = 0;
  CHECK(memory.find(&plain).object == nullptr);
  CHECK(memory.find(nullptr).object == nullptr);
  CHECK(b.tiers().host == 6 * mebi);
  CHECK(b.tiers().device + b.tiers().away == 0);
  CHECK(a.tiers().device == 4 * mebi);
  CHECK(memory.tiers().host == 8 * mebi);
  CHECK(memory.tiers().device == 4 * mebi);
  auto* const gone = b.as<std::byte>();
  CHECK(b.unmap() == 0);
  CHECK(memory.find(gone).object == nullptr);
  CHECK(memory.tiers().host == 2 * mebi);
  CHECK(a.unmap() == 0);
  CHECK(memory.tiers().device == 0);
}

TEST_CASE("mixed: budgets hold other objects only") {
  shared_memory memory(tight(4 * mebi, 2 * mebi));
  mapping const large = memory.allocate(32 * mebi, managed());
  mapping const a = memory.allocate(6 * mebi);
  CHECK(large.size() == 32 * mebi);
  put(a, numbers(6 * mebi / 4));
  CHECK(large.as<std::uint32_t>()[5] == 0);
  auto const use_all = [&] {
    launch(mix_words, 4, 64, large.as<std::uint32_t>(), a.as<std::uint32_t const>(),
           std::uint64_t{0}, 6 * mebi / 4, 0u);
    memory.synchronize();
  };
  CHECK(launched(use_all));
  CHECK(large.as<std::uint32_t>()[5] == 11);
  CHECK(large.stats().moves == 0);
  CHECK(memory.tiers().host == 34 * mebi);
  // One chunk more is too many, and a managed one is not.
  mapping more = memory.allocate(mebi);
  CHECK_FALSE(launched(use_all));
  CHECK(more.unmap() == 0);
  more = memory.allocate(mebi, managed());
  CHECK(launched(use_all));
  CHECK(large.as<std::uint32_t>()[5] == 44);
}

namespace {

/// An object, and what it has to have.
struct modelled {
  mapping object;
  words content;
  bool is_managed = false;
};

/// Objects of both kinds, which random work changes.
class mixed_model {
 public:
  explicit mixed_model(std::string const& spill_dir)
      : memory_(settings(spill_dir)), random_(seed()) {
    for (unsigned i = 0; i < 6; ++i) all_.push_back(made(i % 2 == 0));
  }

  void step() {
    auto& to = any();
    auto& from = any();
    auto const count = std::min(to.content.size(), from.content.size());
    auto const salt = std::uint32_t(random_());
    switch (random_() % 7) {
      case 0:
        memory_.synchronize();
        for (std::uint64_t i = salt % 64; i < count; i += 4096)
          to.object.as<std::uint32_t>()[i] = to.content[i] = salt;
        break;
      case 1:
      case 2:
        if (&to == &from) break;
        mix(to.object, from.object, count, salt);
        mix(to.content, from.content, count, salt);
        break;
      case 3: copy(to, from, count); break;
      case 4: {
        auto const first = salt % count;
        CHECK(memory_.set(to.object.as<std::uint32_t>() + first, 3, (count - first) * 4) == 0);
        std::fill_n(to.content.begin() + std::ptrdiff_t(first), count - first, 0x03030303u);
        break;
      }
      case 5: by_file(to, from, count); break;
      case 6:
        CHECK(to.object.unmap() == 0);
        to = made(random_() % 2 == 0);
        break;
    }
  }

  void check() {
    memory_.synchronize();
    for (auto const& m : all_) {
      CAPTURE(m.is_managed);
      CHECK(is(m.object, m.content));
      CHECK((!m.is_managed || moved_nothing(m.object.stats())));
    }
  }

 private:
  static mapping_config settings(std::string const& spill_dir) {
    auto c = tight(4 * mebi, 6 * mebi);
    c.spill_dir = spill_dir;
    return c;
  }
  modelled made(bool is_managed) {
    auto const count = 1 + random_() % 700'000;
    constexpr coherence_protocol protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                                coherence_protocol::rolling};
    map_options o{.protocol = protocols[random_() % 3], .block = std::uint64_t{64} << 10};
    if (is_managed) o = managed(o);
    return {memory_.allocate(count * 4, o), words(count), is_managed};
  }
  modelled& any() { return all_[random_() % all_.size()]; }

  void copy(modelled& to, modelled const& from, std::uint64_t count) {
    auto const at = random_() % count, source = random_() % count;
    auto const n = count - std::max(at, source);
    CHECK(memory_.copy(to.object.as<std::uint32_t>() + at,
                       from.object.as<std::uint32_t const>() + source, n * 4) == 0);
    auto const moved = words(from.content.begin() + std::ptrdiff_t(source),
                             from.content.begin() + std::ptrdiff_t(source + n));
    std::ranges::copy(moved, to.content.begin() + std::ptrdiff_t(at));
  }

  void by_file(modelled& to, modelled const& from, std::uint64_t count) {
    memory_file const file;
    auto const bytes = std::int64_t(count * 4);
    CHECK(memory_.write(file.fd(), from.object.data(), count * 4) == bytes);
    CHECK(memory_.pread(file.fd(), to.object.data(), count * 4, 0) == bytes);
    if (&to != &from) std::copy_n(from.content.begin(), count, to.content.begin());
  }

  shared_memory memory_;
  std::mt19937_64 random_;
  std::vector<modelled> all_;
};

}  // namespace

TEST_CASE("mixed: launches, copies, I/O and CPU threads agree with a model") {
  scratch_folder const folder;
  mixed_model model(folder.path());
  for (unsigned round = 0; round < 20; ++round) {
    for (unsigned i = 0; i < 6; ++i) model.step();
    model.check();
  }
}

TEST_CASE("mixed: files of both kinds are written back, and refuse what they refuse alone") {
  auto content = numbers(3 * mebi / 4);
  named_file const file(content), other(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), managed({.access = access::read_write}));
  mapping a = memory.map(other.path(), {.access = access::read_write});
  CHECK(is(m, content));
  CHECK(m.stats().fill_bytes == m.size());
  mix(m, a, 1000, 5);
  mix(content, numbers(content.size()), 1000, 5);
  mix(a, m, 1000, 6);
  auto in_a = numbers(content.size());
  mix(in_a, content, 1000, 6);
  CHECK(m.sync() == 0);
  CHECK(a.sync() == 0);
  CHECK(file.content() == content);
  CHECK(other.content() == in_a);
  CHECK(m.stats().writeback_pages == 1);
  CHECK(a.stats().writeback_pages == 1);
  CHECK(memory.stats().writeback_pages == 2);
  CHECK(memory.stats().fill_bytes == m.stats().fill_bytes + a.stats().fill_bytes);
  // Nobody sees what is written to managed memory.
  CHECK(a.unwritten().empty());
  REQUIRE(m.unwritten().size() == 1);
  CHECK(m.unwritten()[0].bytes == m.size());
  CHECK(m.refresh() == -EOPNOTSUPP);
  CHECK(a.refresh() == 0);
  CHECK(m.remap(access::read) == -EOPNOTSUPP);
  CHECK(a.remap(access::read) == 0);
  CHECK(is(a, in_a));
  CHECK(code_of([&] { return memory.map(file.path(), {.access = access::read_write}); }) == EBUSY);
  // What is dropped.
  m.as<std::uint32_t>()[2000] = 1;
  CHECK(m.discard() == 0);
  CHECK(is(m, content));
  m.as<std::uint32_t>()[2000] = 9;
  content[2000] = 9;
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
  // Batch objects have no files, and managed ones no protocol.
  map_options const batch{.protocol = coherence_protocol::batch};
  CHECK(refused([&] { return memory.map(file.path(), batch); }).starts_with("protocol=batch"));
  CHECK(is(memory.map(file.path(), managed(batch)), content));
}

TEST_CASE("mixed: an error of a file is that of its object") {
  auto const content = numbers(3 * mebi / 4);
  named_file const file(content), other(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), managed());
  mapping a = memory.map(other.path());
  std::filesystem::resize_file(file.path(), 4096);
  CHECK(m.refresh() == -ESTALE);
  CHECK(a.refresh() == 0);
  REQUIRE(m.errors().size() == 1);
  CHECK(m.errors()[0].find(file.path()) != std::string::npos);
  CHECK(a.errors().empty());
  CHECK(is(m, content));
  CHECK(is(a, content));
}

TEST_CASE("mixed: a setting of managed memory refuses others, and leaves files alone") {
  mapping_config settings;
  settings.backing = memory_backing::managed;
  shared_memory memory(settings);
  named_file const file(numbers(1000)), missing;
  auto const others = in(memory_backing::automatic);
  auto const text = refused([&] { return memory.allocate(4096, others); });
  CHECK(text.starts_with("backing=auto: must be managed"));
  CHECK(text.find("set backing = auto, and managed for single objects") != std::string::npos);
  CHECK(refused([&] { return memory.map(file.path(), others); }) == text);
  int const fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(refused([&] { return memory.map(fd, others); }) == text);
  ::close(fd);
  CHECK(refused([&] {
          return memory.map(missing.path(),
                            in(memory_backing::automatic,
                               {.access = access::write, .create = true, .length = 4096}));
        }) == text);
  CHECK_FALSE(std::filesystem::exists(missing.path()));
  CHECK(is(memory.map(file.path(), managed()), numbers(1000)));
  CHECK(memory.allocate(4096, managed()).tiers().host == 2 * mebi);
}

TEST_CASE("mixed: managed objects take no addresses of the reservation, and give none back") {
  mapping_config settings;
  settings.address_space = 64ull << 30;
  settings.device_memory = 2 * mebi;
  shared_memory memory(settings);
  constexpr std::uint64_t too_large = 65ull << 30;
  CHECK(code_of([&] { return memory.allocate(too_large); }) == ENOMEM);
  mapping large = memory.allocate(too_large, managed());
  large.as<std::uint32_t>()[too_large / 4 - 1] = 3;
  CHECK(memory.find(large.as<std::byte>() + too_large - 1).object == large.data());
  CHECK(large.unmap() == 0);
  mapping const most = memory.allocate(40ull << 30);
  std::string why;
  try {
    static_cast<void>(memory.allocate(40ull << 30));
  } catch (shared_memory_error const& e) {
    why = e.what();
  }
  CHECK(why.find("no 42949672960 addresses in a row; raise address_space") != std::string::npos);
  mapping const a = memory.allocate(4096);
  mix(a, a, 1024, 1);
  memory.synchronize();
  CHECK(a.as<std::uint32_t>()[1023] == 1024);
}

TEST_CASE("mixed: bad sizes are refused for each kind") {
  shared_memory memory;
  for (auto const backing : both_backings) {
    CHECK(code_of([&] { return memory.allocate(0, in(backing)); }) == EINVAL);
    CHECK(code_of([&] { return memory.allocate(~0ull, in(backing)); }) == ENOMEM);
    CHECK(code_of([&] { return memory.allocate(1ull << 63, in(backing)); }) == ENOMEM);
  }
  auto const too_large = [&](memory_backing backing) {
    try {
      static_cast<void>(memory.allocate(1ull << 63, in(backing)));
    } catch (shared_memory_error const& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(too_large(memory_backing::automatic) ==
        "shared memory: no 9223372036854775808 addresses in a row; raise address_space");
  CHECK(too_large(memory_backing::managed) ==
        "shared memory: 9223372036854775808 bytes of managed memory are more than a process has "
        "addresses; make smaller objects");
  CHECK(memory.tiers().host + memory.tiers().device + memory.tiers().away == 0);
  mapping const m = memory.allocate(4096, managed()), a = memory.allocate(4096);
  memory_file const file(numbers(4096));
  for (mapping const* const o : {&m, &a}) {
    CHECK(memory.pread(file.fd(), o->data(), 4097, 0) == -EFAULT);
    CHECK(memory.copy(o->data(), m.as<std::byte>() + 1, 4096) == -EFAULT);
    CHECK(memory.copy(o->data(), a.as<std::byte>() + 1, 4096) == -EFAULT);
  }
}

TEST_CASE("mixed: a child of fork() has none of them, and ends without a trace") {
  named_file const file(numbers(mebi / 4));
  auto memory = std::make_unique<shared_memory>();
  mapping m = memory->map(file.path(), managed({.access = access::read_write}));
  mapping a = memory->allocate(mebi);
  m.as<std::uint32_t>()[0] = 5;
  a.as<std::uint32_t>()[0] = 6;
  mix(a, m, 100, 0);
  memory->synchronize();
  pid_t const child = ::fork();
  if (child == 0) {
    bool right = memory->find(m.data()).object == nullptr;
    right = right && memory->find(a.data()).object == nullptr;
    right = right && code_of([&] { return memory->allocate(4096, managed()); }) == EIO;
    right = right && code_of([&] { return memory->allocate(4096); }) == EIO;
    right = right && m.acquire(0, 4, access::read) == -EIO && m.sync() == -EIO;
    right = right && m.unmap() == 0 && a.unmap() == 0;
    memory.reset();
    ::_exit(right ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(file.content() == numbers(mebi / 4));
  CHECK(m.as<std::uint32_t>()[0] == 5);
  CHECK(a.as<std::uint32_t>()[0] == 23);
  mix(m, a, 1, 0);
  CHECK(m.unmap() == 0);
  CHECK(file.content()[0] == 38);
}

TEST_CASE("mixed: objects of both kinds outlive their memory, and are written back at the end") {
  auto const content = numbers(mebi / 4);
  named_file const file(content), other(content);
  {
    auto memory = std::make_unique<shared_memory>();
    mapping const m = memory->map(file.path(), managed({.access = access::read_write}));
    mapping const a = memory->map(other.path(), {.access = access::read_write});
    memory.reset();
    mix(m, a, content.size(), 0);
    mix(a, m, content.size(), 0);
  }
  auto in_m = content, in_a = content;
  mix(in_m, in_a, content.size(), 0);
  mix(in_a, in_m, content.size(), 0);
  CHECK(file.content() == in_m);
  CHECK(other.content() == in_a);
}

TEST_CASE("mixed: windows go through a file of one kind and one of the other") {
  auto const content = numbers(7 * mebi / 4);
  named_file const from(content);
  for (auto const backing : both_backings) {
    named_file const to(words(content.size()));
    shared_memory memory(tight(8 * mebi, 8 * mebi));
    auto const rest =
        backing == memory_backing::managed ? memory_backing::automatic : memory_backing::managed;
    mapping in_object = memory.map(from.path(), in(backing));
    mapping out = memory.map(to.path(), in(rest, {.access = access::read_write}));
    check_mix_by_windows(memory, in_object, out, content, to);
  }
}

TEST_CASE("mixed: many threads make, use and free objects of both kinds") {
  shared_memory memory(tight(16 * mebi, 16 * mebi));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&memory, t] {
      for (unsigned round = 0; round < 8; ++round) {
        std::uint64_t const count = (t + 1) * 100'000;
        mapping const m = memory.allocate(count * 4, managed()), a = memory.allocate(count * 4);
        std::fill_n(m.as<std::uint32_t>(), count, t);
        mix(a, m, count, round);
        mix(m, a, count, round);
        this_thread_stream().synchronize();
        words in_m(count, t), in_a(count);
        mix(in_a, in_m, count, round);
        mix(in_m, in_a, count, round);
        if (!is(a, in_a) || !is(m, in_m) || memory.find(m.data()).object != m.data()) std::abort();
      }
    });
  }
  for (auto& t : threads) t.join();
}
