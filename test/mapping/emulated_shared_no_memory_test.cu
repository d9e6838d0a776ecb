// Shared memory while allocations fail in turn: a call that finds no memory says so, and has lost
// nothing. Made once more, it succeeds.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/arena.hpp>
#include <gpufs/mapping/block_runs.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/child.hpp>
#include <test/support/failing_allocations.hpp>
#include <test/support/files.hpp>
#include <test/support/in_library.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t count = 40'000, bytes = count * 4;

words numbers(std::uint32_t first) {
  words all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// An object, and what it has.
struct tracked {
  mapping m;
  words now = words(count);

  void write(std::uint64_t first, std::uint64_t end, std::uint32_t what) {
    for (auto i = first; i < end; ++i)
      m.as<std::uint32_t>()[i] = now[i] = std::uint32_t(i) * what + what;
  }
  [[nodiscard]] bool is_right() const {
    return std::equal(now.begin(), now.end(), m.as<std::uint32_t const>());
  }
};

/// The CPU touches only what acquire() made ready: a touch that finds no memory ends the process.
class program {
 public:
  explicit program(mapping_config const& settings) : settings_(settings) {
    settings_.coherence_block = 16 << 10;
    settings_.rolling_size = 2;
    settings_.fill_threads = 2;
    settings_.fault_handler = fault_handling::signal;
  }

  void run() {
    memory_.emplace(settings_);
    make_objects();
    write_by_cpu(3);
    add_to_all_of_them(5);
    read_by_cpu();
    must([&] { return both_.m.sync(); }, "sync");
    CHECK(file_.content() == both_.now);
    write_by_cpu(7);
    add_to_all_of_them(11);
    must([&] { return both_.m.write_back(); }, "write_back");
    CHECK(file_.content() == both_.now);
    see_others();
    add_to_all_of_them(13);
    move_bytes();
    read_by_cpu();
    must([&] { return both_.m.sync(); }, "sync before another use");
    use_for_reading();
    add_to_all_of_them(17);
    read_by_cpu();
    must([&] { return both_.m.sync(); }, "sync before the end");
    for (auto* const o : {&rolling_, &lazy_, &batch_, &both_}) {
      int const result = library([&] { return o->m.unmap(); });
      CHECK((result == 0 || (result == -ENOMEM && has_failed())));
      CHECK(o->m.data() == nullptr);
    }
    CHECK(file_.content() == both_.now);
  }

 private:
  static bool has_failed() { return failing_allocation::has_failed(); }

  /// One allocation fails, so the second time it succeeds.
  template <class Call>
  static void must(Call const& call, char const* where) {
    int result = 0;
    for (int tries = 0; tries < 2; ++tries) {
      try {
        result = library(call);
      } catch (std::bad_alloc const&) {
        result = -ENOMEM;
      } catch (shared_memory_error const& e) {
        result = -e.code();
      }
      if (result == 0) return;
      CHECK_MESSAGE((result == -ENOMEM && has_failed()), std::string(where), ": ", result);
    }
    REQUIRE_MESSAGE(result == 0, std::string(where));
  }

  void make_objects() {
    auto const make = [&](tracked& o, coherence_protocol protocol) {
      must(
          [&] {
            o.m = memory_->allocate(bytes, {.protocol = protocol});
            return 0;
          },
          "allocate");
    };
    make(rolling_, coherence_protocol::rolling);
    make(lazy_, coherence_protocol::lazy);
    make(batch_, coherence_protocol::batch);
    must(
        [&] {
          both_.m = memory_->map(file_.path(), {.access = access::read_write});
          return 0;
        },
        "map");
    both_.now = numbers(9);
  }

  void write_by_cpu(std::uint32_t what) {
    for (auto* const o : {&rolling_, &lazy_, &batch_}) {
      must([&] { return o->m.acquire(0, bytes, access::read_write); }, "acquire");
      o->write(what, count - what, what);
    }
    must([&] { return rolling_.m.prefetch_to_device(0, bytes / 2); }, "prefetch");
    must([&] { return both_.m.acquire(bytes / 4, bytes / 4, access::read_write); }, "acquire");
    both_.write(count / 4, count / 2, what);
    rolling_.write(0, 0, what);
  }

  // Calls of the library, and a kernel that finds its memory.
  void add_to_all_of_them(std::uint32_t what) {
    for (auto* const o : {&rolling_, &lazy_, &batch_, &both_}) {
      std::unique_ptr<shared_call> call;
      must(
          [&] {
            call = std::make_unique<shared_call>();
            call->reads_writes(o->m);
            return call->release();
          },
          "release");
      {
        detail::declared_launch const declared(*call);
        launch(add_to_all, 1, 32, o->m.as<std::uint32_t>(), count, what);
      }
      for (auto& word : o->now) word += what;
    }
    must(
        [&] {
          memory_->synchronize();
          return 0;
        },
        "synchronize");
  }

  void read_by_cpu() {
    for (auto* const o : {&rolling_, &lazy_, &batch_, &both_}) {
      must([&] { return o->m.acquire(0, bytes, access::read); }, "acquire to read");
      CHECK(o->is_right());
    }
  }

  // The device has the newest bytes.
  void move_bytes() {
    auto const all = [](std::int64_t moved) { return moved == bytes ? 0 : int(moved); };
    memory_file const file(numbers(0));
    words plain(count);
    for (auto* const o : {&rolling_, &lazy_, &batch_, &both_}) {
      must([&] { return memory_->copy(plain.data(), o->m.data(), bytes); }, "copy");
      CHECK(plain == o->now);
      must([&] { return all(memory_->pwrite(file.fd(), o->m.data(), bytes, 0)); }, "pwrite");
      CHECK(file.content<std::uint32_t>() == o->now);
      must([&] { return memory_->set(o->m.data(), 1, bytes / 2); }, "set");
      std::fill_n(o->now.begin(), count / 2, 0x01010101u);
      file.fill(numbers(4));
      must([&] { return all(memory_->pread(file.fd(), o->m.data(), bytes, 0)); }, "pread");
      o->now = numbers(4);
    }
    must([&] { return memory_->copy(rolling_.m.data(), both_.m.data(), bytes); }, "copy of both");
    rolling_.now = both_.now;
  }

  void use_for_reading() {
    must([&] { return both_.m.remap(access::read); }, "remap to read");
    must([&] { return both_.m.acquire(0, bytes, access::read); }, "acquire to read");
    CHECK(both_.is_right());
    must([&] { return both_.m.remap(access::read_write); }, "remap to write");
  }

  void see_others() {
    both_.now[5] = 4242;
    file_.write({4242}, 5 * 4);
    must([&] { return both_.m.refresh(); }, "refresh");
    must([&] { return both_.m.acquire(0, bytes, access::read_write); }, "acquire to change");
    CHECK(both_.is_right());
    both_.m.as<std::uint32_t>()[6] = 1;
    must([&] { return both_.m.discard(); }, "discard");
    must([&] { return both_.m.acquire(0, bytes, access::read); }, "acquire what was discarded");
    CHECK(both_.is_right());
  }

  mapping_config settings_;
  named_file file_{numbers(9)};
  std::optional<shared_memory> memory_;
  tracked rolling_, lazy_, batch_, both_;
};

/// Each allocation, or one of `step` by the seed.
void sweep(mapping_config const& settings, long step) {
  CAPTURE(seed());
  constexpr long most = 5000;
  program(settings).run();  // what is made once per process is there
  long n = long(seed() % std::uint64_t(step)), all = 0;
  for (bool failed = true; failed && n < most; n += step, ++all) {
    CAPTURE(n);
    failing_allocation const one(n);
    program(settings).run();
    failed = failing_allocation::has_failed();
  }
  CHECK(n < most);
  MESSAGE((all - 1) << " allocations refused");
}

}  // namespace

TEST_CASE("no memory: runs and free addresses are as they were") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint64_t most = 40;
  shared::block_runs runs;
  shared::arena free(most);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (int step = 0; step < 20'000; ++step) {
    shared::block_run const r{random() % most, random() % (most + 1)};
    auto const before = runs.runs();
    try {
      failing_allocation const one(long(random() % 3));
      library([&] {
        if (random() % 2 == 0)
          runs.add(r);
        else
          static_cast<void>(runs.take(r));
      });
    } catch (std::bad_alloc const&) {
      REQUIRE(runs.runs() == before);
    }
    if (taken.empty() || random() % 2 == 0) {
      std::uint64_t const size = random() % 5 + 1;
      taken.reserve(taken.size() + 1);
      failing_allocation const one(0);
      if (auto const at = library([&] { return free.take(size); })) taken.emplace_back(*at, size);
    } else {
      auto const which = std::ptrdiff_t(random() % taken.size());
      try {
        failing_allocation const one(0);
        library([&] {
          free.give_back(taken[std::size_t(which)].first, taken[std::size_t(which)].second);
        });
        taken.erase(taken.begin() + which);
      } catch (std::bad_alloc const&) {  // taken still
      }
    }
  }
  for (auto const& [offset, size] : taken) free.give_back(offset, size);
  REQUIRE(free.take(most) == 0);
}

TEST_CASE("no memory: every call of objects says so, and nothing is lost") {
  sweep({}, scaled(1, 20));
}

TEST_CASE("no memory: the same where they do not fit into device memory") {
  sweep(tight(4 << 20, 4 << 20), scaled(5, 50));
}

TEST_CASE("no memory: the same where they are spilled") {
  scratch_folder const folder;
  auto settings = tight(4 << 20, 0);
  settings.spill_dir = folder.path();
  sweep(settings, scaled(5, 50));
}

TEST_CASE("no memory: a read that could not be taken down is made again") {
  named_file const file(numbers(9));
  auto settings = tight(1, 2 << 20);
  settings.detect_writes = write_detection::all;  // no kernels
  for (auto const which : {refused::one, refused::all_from_then_on}) {
    long refusals = 0;
    for (int result = -ENOMEM; result != 0; ++refusals) {
      CAPTURE(refusals);
      shared_memory memory(settings);
      mapping m = memory.map(file.path(), {.access = access::read_write});
      {
        failing_allocation const some(refusals, which);
        result = library([&] { return m.acquire(0, bytes, access::read); });
      }
      CHECK((result == 0 || result == -ENOMEM));
      REQUIRE(m.acquire(0, bytes, access::read) == 0);
      CHECK(m.as<std::uint32_t>()[5] == 14);
    }
    CHECK(refusals > 1);
  }
}

TEST_CASE("no memory: what the CPU writes is seen, though its chunk could not go to the host") {
  named_file const file(numbers(9));
  auto settings = tight(1, 2 << 20);
  settings.fault_handler = fault_handling::signal;
  long refusals = 0;
  for (bool is_at_host = false; !is_at_host; ++refusals) {
    CAPTURE(refusals);
    shared_memory memory(settings);
    mapping m = memory.map(file.path(), {.access = access::read_write});
    mapping const other = memory.allocate(bytes);
    for (mapping const* const each : std::initializer_list<mapping const*>{&m, &other}) {
      shared_call call;
      call.reads_writes(*each);
      launch(call, add_to_all, 1, 32, each->as<std::uint32_t>(), count, 0u);
      memory.synchronize();
    }
    REQUIRE(m.tiers().away != 0);
    {
      auto call = std::make_unique<shared_call>();
      call->reads_writes(m);
      failing_allocation const all(refusals, refused::all_from_then_on);
      int const result = library([&] { return call->release(); });
      CHECK((result == 0 || result == -ENOMEM));
    }
    is_at_host = m.tiers().host != 0;
    for (std::uint32_t const value : {17u, 18u}) {
      if (is_at_host) break;
      m.as<std::uint32_t>()[5] = value;
      CHECK(m.write_back() == 0);
      CHECK(file.content()[5] == value);
    }
  }
  CHECK(refusals > 1);
}

TEST_CASE("no memory: a read counts the bytes that it took of a file or a pipe") {
  words const content = numbers(9);
  constexpr std::uint64_t length = 5 << 20;
  named_file const file(words(length / 4, 7));
  int const fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  constexpr std::uint64_t in_pipe = 32 << 10;
  for (bool const is_pipe : {false, true}) {
    bool failed = true;
    for (long n = 0; failed; ++n) {
      CAPTURE(n);
      CAPTURE(is_pipe);
      shared_memory memory;
      mapping const m = memory.allocate(length, {.block = is_pipe ? 4 << 10 : 1 << 20});
      REQUIRE(::lseek(fd, 0, SEEK_SET) == 0);
      if (is_pipe) REQUIRE(::write(ends[1], content.data(), in_pipe) == ssize_t(in_pipe));
      std::int64_t got = 0;
      {
        failing_allocation const one(n);
        got = library([&] {
          return memory.read(is_pipe ? ends[0] : fd, m.data(), is_pipe ? in_pipe : length);
        });
        failed = failing_allocation::has_failed();
      }
      CHECK((got == -ENOMEM || got > 0));
      auto const taken = std::uint64_t(std::max<std::int64_t>(got, 0));
      if (!is_pipe) {
        CHECK(::lseek(fd, 0, SEEK_CUR) == off_t(taken));
        if (taken != 0) CHECK(m.as<std::uint32_t>()[taken / 4 - 1] == 7);
        continue;
      }
      int left = 0;
      REQUIRE(::ioctl(ends[0], FIONREAD, &left) == 0);
      CHECK(std::uint64_t(left) == in_pipe - taken);
      words rest(in_pipe / 4);
      if (left != 0) REQUIRE(::read(ends[0], rest.data(), in_pipe) == left);
      auto const* const read = m.as<std::uint32_t const>();
      CHECK(std::equal(read, read + taken / 4, content.begin()));
    }
  }
  for (int const open : {fd, ends[0], ends[1]}) ::close(open);
}

TEST_CASE("no memory: a call's end that finds none waits for the call") {
  for (long n = 0; n < 8; ++n) {
    CAPTURE(n);
    shared_memory memory;
    mapping m = memory.allocate(bytes);
    auto call = std::make_unique<shared_call>();
    REQUIRE(call->reads_writes(m).release() == 0);
    {
      failing_allocation const one(n);
      library([&] { call->launched(); });
    }
    CHECK(m.unmap() == 0);
  }
}

TEST_CASE("child: ends without host memory") {
  if (!is_part("ends without host memory")) return;
  static std::optional<shared_memory> memory;
  static std::optional<mapping> m;  // before map(), so that it goes behind exit()'s write-back
  mapping_config settings;
  settings.detect_writes = write_detection::all;
  settings.backing = memory_backing::managed;  // no kernels: the emulated device finds no memory
  memory.emplace(settings);
  m = memory->map(given_path(), {.access = access::read_write});
  m->as<std::uint32_t>()[5] = 3;
  new failing_allocation(std::atol(std::getenv("REFUSED_ALLOCATION")), refused::all_from_then_on);
  in_library = true;
  std::exit(0);
}

TEST_CASE("no memory: exit() ends, and unmaps of static objects behind it") {
  named_file const file(numbers(9));
  for (long n = 0; n < 30; n += scaled(1, 5)) {
    CAPTURE(n);
    ::setenv("REFUSED_ALLOCATION", std::to_string(n).c_str(), 1);
    child c("ends without host memory", file.path());
    CHECK(c.succeeds());
  }
  ::unsetenv("REFUSED_ALLOCATION");
}

TEST_CASE("no memory: calls end all the same") {
  for (long n = 0; n < 40; ++n) {
    CAPTURE(n);
    shared_memory memory;
    mapping m = memory.allocate(bytes), other = memory.allocate(bytes);
    for (std::uint64_t i = 0; i < count; i += 100) m.as<std::uint32_t>()[i] = 1;
    auto call = std::make_unique<shared_call>();
    REQUIRE(call->reads_writes(m).reads(other).release() == 0);
    {
      failing_allocation const all(n, refused::all_from_then_on);
      library([&] { call->launched(); });
    }
    int const result = m.unmap();
    CHECK((result == 0 || result == -EIO));
    CHECK(m.data() == nullptr);
    mapping const next = memory.allocate(bytes);
    CHECK(next.data() != nullptr);
  }
}
