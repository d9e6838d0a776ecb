// The daemon as a whole: bad requests, start and stop, counters.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/daemons.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <thread>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::message_of;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::wait_until;
using gpufs::test::with;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

TEST_CASE("daemon: requests that make no sense get an error each and harm nothing") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100);
  region_memory memory{16, 16, 1 << 20, 8};
  ticket_source tickets{memory.region};
  server daemon{memory.region, with(io_backend::automatic)};
  daemon.start();
  caller c{memory.region, tickets, 0};
  auto const fd = c.open(folder / "a");
  REQUIRE(fd > 0);
  auto const huge = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t const end = memory.region.staging_bytes;
  auto const read = [&](std::int32_t file, std::uint64_t offset, std::uint64_t length,
                        std::uint64_t staging) {
    return c.call({.op = rpc::operation::read,
                   .file = file,
                   .offset = offset,
                   .length = length,
                   .staging = staging});
  };
  CHECK(read(fd, 0, 1, end) == -EINVAL);
  CHECK(read(fd, 0, 2, end - 1) == -EINVAL);
  CHECK(read(fd, 0, 1, huge) == -EINVAL);
  CHECK(read(fd, 0, huge, 1) == -EINVAL);
  CHECK(read(fd, 0, (1ull << 30) + 1, 0) == -EINVAL);
  CHECK(read(fd, rpc::payload_mask, 1, 0) == 0);
  CHECK(read(fd, 0, 0, end) == 0);
  CHECK(read(fd, 99, 1, end - 1) == 1);
  for (std::int32_t const bad : {-1, 0, fd + 1, fd + (1 << 16), 5 << 16 | 9, 0x7fffffff}) {
    CHECK(read(bad, 0, 1, 0) == -EBADF);
    CHECK(c.close(bad) == -EBADF);
    CHECK(c.call({.op = rpc::operation::stat, .file = bad}) == -EBADF);
  }
  CHECK(c.call({.op = rpc::operation::stat, .file = fd, .staging = end - 63}) == -EINVAL);
  auto const advise = [&](std::int32_t file, std::uint64_t what) {
    return c.call({.op = rpc::operation::advise, .file = file, .argument = {what, 0}});
  };
  for (std::uint64_t const what : {0, 1, 2}) CHECK(advise(fd, what) == 0);
  for (std::uint64_t const what :
       {std::uint64_t{3}, std::uint64_t{4}, std::uint64_t{5}, std::uint64_t{1} << 32, huge})
    CHECK(advise(fd, what) == -EINVAL);
  CHECK(advise(fd + 1, 1) == -EBADF);
  CHECK(c.call({.op = rpc::operation(77)}) == -EINVAL);
  CHECK(c.call({.op = rpc::operation::nop, .flags = 1}) == -EINVAL);
  for (unsigned flags = 0; flags < 256; ++flags)
    CHECK(c.call({.op = rpc::operation::read, .flags = std::uint8_t(flags), .file = fd}) ==
          (flags <= rpc::read_flags ? 0 : -EINVAL));
  auto const open = [&](std::uint64_t length, std::uint64_t staging, std::uint64_t flags) {
    return c.call(
        {.op = rpc::operation::open, .length = length, .staging = staging, .argument = {flags, 0}});
  };
  CHECK(open(10, end, 0) == -EINVAL);
  CHECK(open(huge, 0, 0) == -EINVAL);
  CHECK(open(4096, 0, 0) == -ENAMETOOLONG);
  CHECK(open(0, 0, 0) == -ENOENT);
  CHECK(open(1, 0, huge) == -EINVAL);
  CHECK(c.open(folder / "a", O_RDWR) == -EROFS);
  auto const taken = daemon.statistics().requests;
  tickets.write(tickets.take(), {.channel = 16, .sequence = 1});
  CHECK(c.call({.op = rpc::operation::nop}) == 0);
  wait_until([&] { return daemon.statistics().requests == taken + 2; }, "both requests counted");
  wait_until([&] { return daemon.statistics().rejected == 1; }, "one of them rejected");
}

TEST_CASE("daemon: any threads start it and stop it") {
  region_memory memory{16, 16, 1 << 20, 8};
  server daemon{memory.region, with(io_backend::pread)};
  for (unsigned round = 0; round < 50; ++round) {
    std::thread first{[&] { daemon.start(); }}, second{[&] { daemon.start(); }};
    first.join();
    second.join();
    CHECK(daemon.running());
    std::thread third{[&] { daemon.stop(); }}, fourth{[&] { daemon.stop(); }};
    third.join();
    fourth.join();
    CHECK_FALSE(daemon.running());
  }
}

TEST_CASE("daemon: stat through the ring fills in staging") {
  scratch_folder folder;
  write_range(folder / "a", 0, 123);
  region_memory memory;
  ticket_source tickets{memory.region};
  server daemon{memory.region, with(io_backend::automatic)};
  daemon.start();
  caller c{memory.region, tickets, 5};
  auto const fd = c.open(folder / "a");
  CHECK(c.call({.op = rpc::operation::stat, .file = fd, .staging = c.staging()}) == 0);
  rpc::file_status status{};
  std::memcpy(&status, c.data(), sizeof status);
  CHECK(status.size == 123);
  CHECK(S_ISREG(status.mode));
}

TEST_CASE(
    "daemon: stop answers what was taken, held or not, and leaves the rest; a new start answers "
    "that too") {
  struct holding final : fault_injector {
    std::shared_ptr<gate> shut = std::make_shared<gate>();
    fault_action before_read(rpc::request const& r, std::uint64_t, std::uint64_t) override {
      return r.offset == 1 ? fault_action::hold(shut) : fault_action::pass();
    }
    fault_action before_open(std::string_view path) override {
      return path == "held" ? fault_action::hold(shut) : fault_action::pass();
    }
  } faults;
  scratch_folder folder;
  write_range(folder / "a", 0, 1000);
  for (auto const backend : {io_backend::pread, io_backend::automatic}) {
    faults.shut = std::make_shared<gate>();
    region_memory memory;
    ticket_source tickets{memory.region};
    server daemon{memory.region, with(backend), &faults};
    CHECK(memory.stopped() == 0);
    daemon.start();
    daemon.start();
    CHECK(daemon.running());
    caller a{memory.region, tickets, 0}, b{memory.region, tickets, 1}, c{memory.region, tickets, 2};
    auto const fd = a.open(folder / "a");
    a.post_read(fd, 1, 10);
    b.post_open("held");
    wait_until([&] { return faults.shut->arrivals() == 2; }, "a held read and a held open");
    daemon.stop();
    CHECK(memory.stopped() == 1);
    CHECK_FALSE(daemon.running());
    REQUIRE(a.answered());
    REQUIRE(b.answered());
    CHECK(a.wait() == -EIO);
    CHECK(b.wait() == -EIO);
    c.post_read(fd, 2, 10);
    daemon.stop();
    CHECK_FALSE(c.answered());
    CHECK(daemon.statistics().requests == 3);
    daemon.start();
    CHECK(memory.stopped() == 0);
    CHECK(c.wait() == 10);
    CHECK(wrong_bytes(c.data(), 2, 10) == 0);
    CHECK(daemon.statistics().requests >= 3);
    CHECK(daemon.files().close(fd) == 0);
  }
}

TEST_CASE("daemon: a server that was never started ends without further ado") {
  region_memory memory;
  server daemon{memory.region, with(io_backend::automatic)};
  CHECK_FALSE(daemon.running());
  daemon.stop();
  CHECK(memory.stopped() == 0);
}

TEST_CASE("daemon: a wrong region or setting is named when the daemon is made") {
  region_memory memory;
  auto const refuses = [&](auto const& change, std::string_view text) {
    auto region = memory.region;
    auto settings = with(io_backend::pread);
    change(region, settings);
    auto const message = message_of([&] { server{region, settings}; });
    CAPTURE(message);
    CHECK(message.find(text) != std::string::npos);
  };
  refuses([](auto& r, auto&) { r.slots = 48; }, "48");
  refuses([](auto& r, auto&) { r.channels = r.slots + 1; }, "channels");
  refuses([](auto& r, auto&) { r.slots = 0; }, "ring of 0 slots");
  refuses([](auto& r, auto&) { r.ring = nullptr; }, "no ring");
  refuses([](auto& r, auto&) { r.completions = nullptr; }, "no ring, channels");
  refuses([](auto& r, auto&) { r.staging = nullptr; }, "no ring, channels or staging");
  refuses([](auto& r, auto&) { r.staging_bytes = 0; }, "staging of 0 bytes");
  refuses([](auto& r, auto&) { r.max_open_files = 65537; }, "max_open_files=65537");
  refuses([](auto& r, auto&) { r.control = nullptr; }, "control");
  refuses([](auto&, auto& s) { s.threads = 257; }, "host_threads=257");
  refuses([](auto&, auto& s) { s.queue_depth = 0; }, "queue_depth=0");
  refuses([](auto&, auto& s) { s.queue_depth = 4097; }, "queue_depth=4097");
  auto most = with(io_backend::pread);
  most.threads = 256;
  most.queue_depth = 4096;
  CHECK(message_of([&] { server{memory.region, most}; }).empty());
}

TEST_CASE("daemon: an idle daemon stops looking hard, and still answers") {
  region_memory memory;
  ticket_source tickets{memory.region};
  server daemon{memory.region, with(io_backend::automatic)};
  daemon.start();
  caller c{memory.region, tickets, 0};
  for (int i = 0; i < 20; ++i) {
    auto const before = daemon.statistics().idle_polls;
    wait_until([&] { return daemon.statistics().idle_polls > before + 60; }, "60 idle polls");
    CHECK(c.call({.op = rpc::operation::nop}) == 0);
  }
  CHECK(daemon.statistics().requests == 20);
}

TEST_CASE(
    "daemon: each thread counts what it took, and how often it looked before the first request") {
  region_memory memory;
  ticket_source tickets{memory.region};
  auto settings = with(io_backend::automatic);
  settings.threads = 3;
  server daemon{memory.region, settings};
  daemon.start();
  REQUIRE(daemon.per_thread().size() == 3);
  wait_until(
      [&] {
        for (auto const& t : daemon.per_thread())
          if (t.polls_before_first < 10) return false;
        return true;
      },
      "10 idle polls of each thread");
  caller c{memory.region, tickets, 0};
  for (int i = 0; i < 50; ++i) CHECK(c.call({.op = rpc::operation::nop}) == 0);
  std::uint64_t requests = 0;
  auto const before = daemon.per_thread();
  for (auto const& t : before) requests += t.requests;
  CHECK(requests == 50);
  wait_until([&] { return daemon.statistics().idle_polls > before[0].idle_polls + 1000; },
             "more idle polls");
  auto const after = daemon.per_thread();
  for (std::size_t i = 0; i < 3; ++i) {
    if (before[i].requests != 0) CHECK(after[i].polls_before_first == before[i].polls_before_first);
    if (before[i].requests == 0) CHECK(after[i].polls_before_first + 1 >= before[i].idle_polls);
  }
  daemon.stop();
  CHECK(daemon.per_thread().empty());
}
