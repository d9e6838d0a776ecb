// The daemon as a whole: bad requests, start and stop, fallbacks, counters.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>
#include <liburing.h>

#include <cstdio>
#include <limits>

#include <sys/uio.h>
#include <sys/utsname.h>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::wait_until;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

namespace {

server_settings with(io_backend backend, unsigned threads = 2) {
  server_settings s;
  s.threads = threads;
  s.backend = backend;
  return s;
}

bool mentions(std::vector<std::string> const& notes, std::string_view text) {
  for (auto const& n : notes)
    if (n.find(text) != std::string::npos) return true;
  return false;
}

// Runs `make`. Returns the message of the exception that it throws, or "".
template <class Make>
std::string message_of(Make const& make) {
  try {
    make();
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

}  // namespace

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
  CHECK(daemon.statistics().rejected == 1);
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

TEST_CASE(
    "daemon: where io_uring is refused it reads with pread and says so, unless io_uring was "
    "demanded") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1000);
  for (int const error : {EPERM, ENOSYS, ENOMEM}) {
    region_memory memory;
    auto settings = with(io_backend::automatic);
    settings.hooks.set_up_ring = [error](unsigned, ::io_uring*, unsigned) { return -error; };
    server daemon{memory.region, settings};
    CHECK(daemon.backend() == io_backend::pread);
    CHECK(mentions(daemon.notes(), "pread threads: the kernel refuses io_uring"));
    CHECK(mentions(daemon.notes(), std::strerror(error)));
    CHECK(mentions(daemon.notes(), "ulimit -l") == (error == ENOMEM));
    ticket_source tickets{memory.region};
    daemon.start();
    caller c{memory.region, tickets, 0};
    CHECK(c.read(c.open(folder / "a"), 0, 500) == 500);
    settings.backend = io_backend::uring;
    region_memory other;
    auto const message = message_of([&] { server{other.region, settings}; });
    CHECK(message.find("io_backend=uring") != std::string::npos);
    CHECK(message.find(std::strerror(error)) != std::string::npos);
  }
}

TEST_CASE("daemon: a ring refused to one thread only makes all of them use pread") {
  region_memory memory;
  auto settings = with(io_backend::automatic, 3);
  int calls = 0;
  settings.hooks.set_up_ring = [&](unsigned entries, ::io_uring* ring, unsigned flags) {
    return ++calls == 3 ? -ENOMEM : ::io_uring_queue_init(entries, ring, flags);
  };
  server daemon{memory.region, settings};
  CHECK(daemon.backend() == io_backend::pread);
}

TEST_CASE("daemon: kernels that do not know the newer ring flags still get a ring") {
  region_memory memory;
  auto settings = with(io_backend::automatic);
  bool older_tried = false;
  settings.hooks.set_up_ring = [&](unsigned entries, ::io_uring* ring, unsigned flags) {
    if (flags != 0) return -EINVAL;
    older_tried = true;
    return ::io_uring_queue_init(entries, ring, 0);
  };
  server daemon{memory.region, settings};
  CHECK(older_tried);
  ticket_source tickets{memory.region};
  daemon.start();
  caller c{memory.region, tickets, 0};
  CHECK(c.call({.op = rpc::operation::nop}) == 0);
  auto const fd = c.open("/proc/self/exe");
  CHECK(c.read(fd, 0, 64) == 64);
}

TEST_CASE(
    "daemon: where registration is refused it goes on unregistered and says so once for all "
    "threads") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1000);
  region_memory memory;
  auto settings = with(io_backend::automatic, 3);
  settings.hooks.register_buffers = [](::io_uring*, ::iovec const*, unsigned) { return -ENOMEM; };
  settings.hooks.register_files = [](::io_uring*, unsigned) { return -EMFILE; };
  server daemon{memory.region, settings};
  if (daemon.backend() != io_backend::uring) {
    MESSAGE("skipped: the kernel refuses io_uring");
    return;
  }
  CHECK(mentions(daemon.notes(), "unregistered buffers"));
  CHECK(mentions(daemon.notes(), "locked-memory limit"));
  CHECK(mentions(daemon.notes(), "unregistered files"));
  CHECK(daemon.notes().size() - daemon.files().notes().size() == 2);
  ticket_source tickets{memory.region};
  daemon.start();
  caller c{memory.region, tickets, 0};
  auto const fd = c.open(folder / "a");
  for (std::uint64_t i = 0; i < 50; ++i) {
    REQUIRE(c.read(fd, i, 500) == 500);
    REQUIRE(wrong_bytes(c.data(), i, 500) == 0);
  }
}

TEST_CASE("daemon: staging is registered whole, in pieces of at most 1 GiB") {
  region_memory memory;
  auto region = memory.region;
  region.staging_bytes =
      (2ull << 30) + 4096;  // never touched: the registration is refused before anything is read
  auto settings = with(io_backend::automatic, 1);
  std::vector<::iovec> pieces;
  settings.hooks.register_buffers = [&](::io_uring*, ::iovec const* p, unsigned count) {
    pieces.assign(p, p + count);
    return -ENOMEM;
  };
  server daemon{region, settings};
  if (daemon.backend() != io_backend::uring) {
    MESSAGE("skipped: the kernel refuses io_uring");
    return;
  }
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].iov_base == region.staging);
  CHECK(pieces[0].iov_len == 1ull << 30);
  CHECK(pieces[2].iov_base == region.staging + (2ull << 30));
  CHECK(pieces[2].iov_len == 4096);
}

// Linux does since 6.12.
bool kernel_clones_buffers() {
  ::utsname name{};
  unsigned major = 0, minor = 0;
  return ::uname(&name) == 0 && std::sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

// Reads with all threads of the daemon; returns how many bytes were wrong.
std::uint64_t wrong_of_many_reads(server& daemon, rpc::shared_region const& region,
                                  std::string const& path) {
  ticket_source tickets{region};
  daemon.start();
  std::uint64_t wrong = 0;
  caller c{region, tickets, 0};
  auto const fd = c.open(path);
  for (std::uint64_t i = 0; i < 50; ++i) {
    REQUIRE(c.read(fd, i, 500) == 500);
    wrong += wrong_bytes(c.data(), i, 500);
  }
  return wrong;
}

TEST_CASE("daemon: all threads share one registration of staging, where the kernel clones it") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1000);
  region_memory memory;
  auto settings = with(io_backend::automatic, 9);
  unsigned registrations = 0;
  settings.hooks.register_buffers = [&](::io_uring* ring, ::iovec const* p, unsigned count) {
    ++registrations;
    return ::io_uring_register_buffers(ring, p, count);
  };
  server daemon{memory.region, settings};
  if (daemon.backend() != io_backend::uring) {
    MESSAGE("skipped: the kernel refuses io_uring");
    return;
  }
  CHECK(registrations == (kernel_clones_buffers() ? 1 : 9));
  CHECK(daemon.notes().size() == daemon.files().notes().size());
  CHECK(wrong_of_many_reads(daemon, memory.region, folder / "a") == 0);
}

TEST_CASE("daemon: threads that cannot share a registration register at most 8 GiB, and say so") {
  region_memory memory;
  for (std::uint64_t const gib : {1, 3, 16}) {
    CAPTURE(gib);
    auto region = memory.region;
    region.staging_bytes = gib << 30;  // never touched
    auto settings = with(io_backend::automatic, 20);
    std::uint64_t registered = 0;
    settings.hooks.register_buffers = [&](::io_uring*, ::iovec const*, unsigned) {
      registered += gib << 30;
      return 0;
    };
    settings.hooks.clone_buffers = [&](::io_uring*, ::io_uring*) { return -EINVAL; };
    server daemon{region, settings};
    if (daemon.backend() != io_backend::uring) {
      MESSAGE("skipped: the kernel refuses io_uring");
      return;
    }
    CHECK(registered == (gib == 16 ? 16ull << 30 : 8 / gib * gib << 30));  // one does in any case
    CHECK(mentions(daemon.notes(), "lower host_threads or staging_size [" +
                                       std::to_string(20 - registered / (gib << 30)) +
                                       " of 20 threads]"));
  }
}

TEST_CASE("daemon: where buffers cannot be shared, each thread of a small daemon registers them") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1000);
  region_memory memory;
  auto settings = with(io_backend::automatic, 3);
  unsigned registrations = 0;
  settings.hooks.register_buffers = [&](::io_uring* ring, ::iovec const* p, unsigned count) {
    ++registrations;
    return ::io_uring_register_buffers(ring, p, count);
  };
  settings.hooks.clone_buffers = [](::io_uring*, ::io_uring*) { return -EINVAL; };
  server daemon{memory.region, settings};
  if (daemon.backend() != io_backend::uring) {
    MESSAGE("skipped: the kernel refuses io_uring");
    return;
  }
  CHECK(registrations == 3);
  CHECK(wrong_of_many_reads(daemon, memory.region, folder / "a") == 0);
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
  refuses([](auto& r, auto&) { r.ring = nullptr; }, "no ring");
  refuses([](auto& r, auto&) { r.max_open_files = 65537; }, "max_open_files=65537");
  refuses([](auto& r, auto&) { r.control = nullptr; }, "control");
  refuses([](auto&, auto& s) { s.threads = 257; }, "host_threads=257");
  refuses([](auto&, auto& s) { s.queue_depth = 0; }, "queue_depth=0");
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
