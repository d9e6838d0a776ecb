// Reads widened to the units of O_DIRECT, and the worker's reaction to the kernel's answers.
#include <host-daemon/engine/direct_read.hpp>
#include <host-daemon/serve/worker.hpp>

#include <test/daemon/paths.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <latch>
#include <memory>
#include <random>

using namespace gpufs::daemon;
using namespace gpufs::test;
using gpufs::io_path;

namespace {

std::uint64_t up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

// Answers reads with O_DIRECT as the test says. Carries out the others.
struct obstinate final : io_engine {
  std::int64_t error = 0;         // if not 0, the answer
  std::uint32_t most = 1u << 30;  // else the most bytes
  int direct_reads = 0;

  int attach() override { return 0; }
  std::size_t room() const override { return 8; }
  std::optional<std::int64_t> submit(read_operation const& read) override {
    bool const direct = (::fcntl(read.from->fd, F_GETFL) & O_DIRECT) != 0;
    direct_reads += direct;
    if (direct && error != 0) return error;
    auto const got = ::pread(read.from->fd, read.to, read.length, off_t(read.offset));
    if (!direct || got <= most) return got;
    std::memset(read.to + most, 0xee, std::size_t(got) - most);
    return most;
  }
  std::size_t poll(std::span<read_result>) override { return 0; }
  void wait(std::chrono::microseconds) override {}
  void forget(local_file&) override {}
};

// One worker with such an engine.
struct lone_worker {
  lone_worker(std::int64_t error, std::uint32_t most)
      : engine{new obstinate},
        thread{with_one(endpoints, memory.region),
               registry,
               writes,
               nullptr,
               std::unique_ptr<io_engine>{engine},
               path_choice{io_path::direct, {}, notes}} {
    engine->error = error;
    engine->most = most;
    std::latch ready{1};
    thread.start(0, ready);
    ready.wait();
  }
  ~lone_worker() { stop(); }
  static std::deque<served_endpoint>& with_one(std::deque<served_endpoint>& list,
                                               gpufs::rpc::shared_region const& region) {
    list.emplace_back(endpoint{region}, 1);
    return list;
  }
  void stop() {
    thread.request_stop();
    thread.join();
  }

  region_memory memory{16, 4, 4 << 20, 8};
  ticket_source tickets{memory.region};
  std::deque<served_endpoint> endpoints;
  write_back writes{memory.region.writes, nullptr};
  file_registry registry{memory.region};
  note_list notes;
  obstinate* engine;  // the worker's; look only before it starts and after it has stopped
  worker thread;
  caller c{memory.region, tickets, 0};
};

}  // namespace

TEST_CASE(
    "direct read: any range, alignment and room: the wanted bytes arrive, nothing before them nor "
    "beyond the room changes") {
  std::mt19937_64 random{gpufs::test::seed()};
  CAPTURE(gpufs::test::seed());
  constexpr std::uint64_t memory_bytes = 2 << 20;
  std::unique_ptr<std::byte, decltype(&std::free)> const memory{
      static_cast<std::byte*>(std::aligned_alloc(4096, memory_bytes)), &std::free};
  direct_read r;
  for (int i = 0; i < 600; ++i) {
    direct_alignment const aligned{512u << random() % 4, 4u << random() % 11};
    auto const units = random() % 3 != 0;
    auto const offset = units ? random() % 64 * 4096 : random() % 200'000;
    auto const length = 1 + (i % 10 == 0 ? random() % 700'000 : random() % 20'000);
    auto const at = 4096 + (units ? random() % 8 * 4096 : random() % 10'000);
    auto const room = random() % 2 != 0 ? length : up(length, 4096);
    auto const file_size =
        random() % 4 == 0 ? random() % (offset + length + 1) : offset + length + random() % 10'000;
    std::memset(memory.get(), 0xee, memory_bytes);
    std::uint64_t done = 0;
    for (int steps = 0; done < length; ++steps) {
      REQUIRE(steps < 10);
      auto* const to = memory.get() + at + done;
      REQUIRE(r.plan(aligned, offset + done, length - done, to, room - done));
      REQUIRE(r.offset() % aligned.offset == 0);
      REQUIRE(r.length() % aligned.offset == 0);
      REQUIRE(r.length() > 0);
      REQUIRE(reinterpret_cast<std::uintptr_t>(r.to()) % aligned.memory == 0);
      // The kernel's part.
      auto const end = std::min(r.offset() + r.length(), std::max(file_size, r.offset()));
      for (auto b = r.offset(); b < end; ++b)
        r.to()[b - r.offset()] = gpufs::test::expected_byte(b);
      auto const got = r.finish(end - r.offset());
      REQUIRE(got <= r.wanted());
      done += got;
      if (got < r.wanted()) break;
    }
    REQUIRE(done == std::min(length, std::max(file_size, offset) - offset));
    REQUIRE(wrong_bytes(memory.get() + at, offset, done) == 0);
    auto const untouched = [](std::byte b) { return b == std::byte{0xee}; };
    REQUIRE(std::all_of(memory.get(), memory.get() + at, untouched));
    REQUIRE(std::all_of(memory.get() + at + std::max(done, room), memory.get() + memory_bytes,
                        untouched));
  }
}

TEST_CASE(
    "direct read: a file whose aligned reads are refused is read through the cache from then on, "
    "and a note says so") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100'000);
  if (!has_direct(folder / "a")) return;
  for (int const error : {EINVAL, EOPNOTSUPP}) {
    lone_worker w{-error, 0};
    auto const fd = w.c.open(folder / "a");
    for (std::uint64_t at = 0; at < 100'000; at += 10'000) {
      CHECK(w.c.read(fd, at, 10'000) == 10'000);
      CHECK(wrong_bytes(w.c.data(), at, 10'000) == 0);
    }
    w.stop();
    CHECK(w.engine->direct_reads == 1);
    CHECK(w.thread.counters(0).bytes_direct == 0);
    REQUIRE(w.notes.all().size() == 1);
    CHECK(w.notes.all()[0].find("refuses O_DIRECT") != std::string::npos);
  }
}

TEST_CASE("direct read: other errors are the request's answer, and the next request tries again") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100'000);
  if (!has_direct(folder / "a")) return;
  lone_worker w{-EIO, 0};
  auto const fd = w.c.open(folder / "a");
  CHECK(w.c.read(fd, 0, 10'000) == -EIO);
  CHECK(w.c.read(fd, 0, 10'000) == -EIO);
  w.stop();
  CHECK(w.engine->direct_reads == 2);
}

TEST_CASE(
    "direct read: one that comes back short in the middle of the file is carried on by a buffered "
    "one, wherever it stopped") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100'000);
  if (!has_direct(folder / "a")) return;
  for (std::uint32_t const most : {0u, 1u, 511u, 512u, 5'000u}) {
    for (std::uint64_t const offset : {0u, 4'096u, 5'001u}) {
      CAPTURE(most);
      CAPTURE(offset);
      lone_worker w{0, most};
      auto const fd = w.c.open(folder / "a");
      CHECK(w.c.read(fd, offset, 20'000) == 20'000);
      CHECK(wrong_bytes(w.c.data(), offset, 20'000) == 0);
      w.stop();
      CHECK(w.engine->direct_reads == 1);
    }
  }
}
