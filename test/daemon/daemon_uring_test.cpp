// The daemon's rings of io_uring: what it does where they, or their registrations, are refused.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/daemons.hpp>

#include <doctest/doctest.h>
#include <liburing.h>

#include <cstdio>

#include <sys/uio.h>
#include <sys/utsname.h>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::mentions;
using gpufs::test::message_of;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::with;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

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
  CHECK(mentions(daemon.notes(), "lower prefetch_memory or staging_size"));
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
    CHECK(mentions(daemon.notes(), "lower host_threads, prefetch_memory or staging_size [" +
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
