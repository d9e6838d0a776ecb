// One daemon and two endpoints: files and threads are shared, the rest is each endpoint's own.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::expected_byte;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::wait_until;
using gpufs::test::with_each_engine;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

namespace {

constexpr std::uint64_t page = region_memory::page_bytes;

// One device as the daemon sees it: its memory and its callers. Acts for gwrite, too.
class device {
 public:
  region_memory memory{16, 16, 1 << 20, 8, 4};
  ticket_source tickets{memory.region};

  [[nodiscard]] caller at(std::uint32_t channel) { return {memory.region, tickets, channel}; }

  // Posts one byte of a page in write buffer `i`, as gwrite does. `flags`: posted_busy for a kernel
  // that then begins to add another byte and dies.
  void write(std::uint32_t i, std::uint64_t version, std::uint64_t offset, std::byte value,
             std::uint64_t flags = 0) {
    auto const& w = memory.region.writes;
    auto& header = w.headers[i];
    std::atomic_ref<std::uint64_t>{header.version}.store(version, std::memory_order_relaxed);
    std::atomic_ref<std::uint64_t>{header.page}.store(offset / page, std::memory_order_relaxed);
    header.ranges = 1;
    header.range[0] = {std::uint32_t(offset % page), std::uint32_t(offset % page + 1)};
    w.bytes[i * page + offset % page] = value;
    std::atomic_ref{reinterpret_cast<std::uint8_t*>(w.marks)[i]}.store(rpc::mark_of(version));
    std::atomic_ref<std::uint64_t>{w.posted[i]}.store(++sequence_ << rpc::posted_shift | flags,
                                                      std::memory_order_seq_cst);
  }

  // The kernel has added its bytes.
  void end_gwrite(std::uint32_t i) const {
    std::atomic_ref<std::uint64_t>{memory.region.writes.posted[i]}.fetch_and(
        ~std::uint64_t{rpc::posted_busy});
  }

  [[nodiscard]] bool clean(std::uint32_t i) const {
    auto const& w = memory.region.writes;
    return std::atomic_ref<std::uint64_t>{w.posted[i]}.load() >> rpc::posted_shift ==
           std::atomic_ref<std::uint64_t>{w.written[i]}.load() >> rpc::written_shift;
  }

 private:
  std::uint64_t sequence_ = 0;
};

struct two_devices {
  explicit two_devices(io_backend backend = io_backend::automatic, unsigned threads = 2,
                       fault_injector* faults = nullptr)
      : server{{{one.memory.region}, {two.memory.region}}, settings(backend, threads), faults} {
    server.start();
  }
  static server_settings settings(io_backend backend, unsigned threads) {
    server_settings s;
    s.threads = threads;
    s.backend = backend;
    return s;
  }
  device one, two;
  gpufs::daemon::server server;
};

std::byte byte_of(std::string const& path, std::uint64_t offset) {
  std::byte b{};
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(::pread(fd, &b, 1, off_t(offset)) == 1);
  ::close(fd);
  return b;
}

}  // namespace

TEST_CASE(
    "endpoints: a descriptor opened through one reads through both, and each counts its own") {
  with_each_engine([](io_backend backend) {
    scratch_folder folder;
    write_range(folder / "a", 0, 100'000);
    two_devices d{backend};
    REQUIRE(d.server.endpoints() == 2);
    auto a = d.one.at(0), b = d.two.at(3);
    auto const fd = a.open(folder / "a");
    REQUIRE(fd > 0);
    CHECK(a.read(fd, 5, 1000) == 1000);
    CHECK(wrong_bytes(a.data(), 5, 1000) == 0);
    for (std::uint64_t at = 0; at < 100'000; at += 20'000) {
      CHECK(b.read(fd, at, 20'000) == 20'000);
      CHECK(wrong_bytes(b.data(), at, 20'000) == 0);
    }
    for (auto* const memory : {&d.one.memory, &d.two.memory}) {
      CHECK(memory->size(fd) == 100'000);
      CHECK(memory->tag(fd) == rpc::descriptor_generation(fd));
      CHECK(memory->version(fd) == d.one.memory.version(fd));
    }
    CHECK(b.close(fd + 1) == -EBADF);
    auto const epoch = d.one.memory.epoch();
    CHECK(b.close(fd) == 0);  // it is the same descriptor
    CHECK(a.read(fd, 0, 1) == -EBADF);
    CHECK(d.one.memory.epoch() == epoch + 1);
    CHECK(d.one.memory.tag(fd) == 0);
    d.server.stop();
    auto const first = d.server.statistics(0), second = d.server.statistics(1);
    CHECK(first.requests == 3);
    CHECK(first.failed == 1);
    CHECK(first.bytes_read == 1000);
    CHECK(second.requests == 7);
    CHECK(second.failed == 1);
    CHECK(second.bytes_read == 100'000);
    auto const all = d.server.statistics();
    CHECK(all.requests == 10);
    CHECK(all.bytes_read == 101'000);
    CHECK(first.idle_polls + second.idle_polls == 0);
  });
}

TEST_CASE("endpoints: bytes written through one are read through the other after sync") {
  scratch_folder folder;
  write_range(folder / "a", 0, 3 * page);
  two_devices d;
  auto a = d.one.at(0), b = d.two.at(0);
  auto const fd = a.open(folder / "a", O_RDWR);
  REQUIRE(fd > 0);
  CHECK(b.open(folder / "a", O_RDWR) == fd);
  d.one.write(1, d.one.memory.version(fd), page + 7, std::byte{0xa1});
  d.two.write(2, d.two.memory.version(fd), page + 8, std::byte{0xa2});  // the same page
  CHECK(b.call({.op = rpc::operation::sync, .file = fd}) == 0);
  CHECK(d.one.clean(1));
  CHECK(d.two.clean(2));
  for (auto* const c : {&a, &b}) {
    CHECK(c->read(fd, page, page) == page);
    CHECK(c->data()[7] == std::byte{0xa1});
    CHECK(c->data()[8] == std::byte{0xa2});
    CHECK(wrong_bytes(c->data(), page, 7) == 0);
    CHECK(wrong_bytes(c->data() + 9, page + 9, page - 9) == 0);
  }
  // The last close writes what any endpoint has posted.
  d.two.write(0, d.two.memory.version(fd), 0, std::byte{0xa3});
  CHECK(a.close(fd) == 0);
  CHECK(a.close(fd) == 0);
  CHECK(byte_of(folder / "a", 0) == std::byte{0xa3});
  d.server.stop();
  CHECK(d.server.statistics(0).bytes_written == 1);
  CHECK(d.server.statistics(1).bytes_written == 2);
  CHECK(d.server.statistics().writes_issued == 3);
}

TEST_CASE("endpoints: a failed write-back of one is shown to the kernels of both") {
  struct refusing final : fault_injector {
    std::atomic<bool> on{true};
    fault_action before_write(int, std::uint64_t, std::uint64_t) override {
      return on ? fault_action::fail(ENOSPC) : fault_action::pass();
    }
  } faults;
  scratch_folder folder;
  write_range(folder / "a", 0, page);
  two_devices d{io_backend::pread, 1, &faults};
  auto a = d.one.at(0), b = d.two.at(0);
  auto const fd = a.open(folder / "a", O_RDWR);
  auto const index = rpc::descriptor_index(fd);
  auto const error_of = [&](device& which) {
    auto const place = which.memory.region.open_files[index].write_index - 1;
    return std::atomic_ref<std::uint64_t>{which.memory.region.writes.errors[place]}.load();
  };
  d.one.write(0, d.one.memory.version(fd), 1, std::byte{0xb1});
  wait_until([&] { return error_of(d.two) == ENOSPC; }, "the error at the other endpoint");
  CHECK(error_of(d.one) == ENOSPC);
  CHECK(b.call({.op = rpc::operation::sync, .file = fd}) == -ENOSPC);
  faults.on = false;
  CHECK(a.call({.op = rpc::operation::sync, .file = fd}) == 0);
  CHECK(error_of(d.one) == 0);
  CHECK(error_of(d.two) == 0);
  CHECK(a.close(fd) == 0);
  CHECK(byte_of(folder / "a", 1) == std::byte{0xb1});
}

TEST_CASE("endpoints: one that is detached ends alone; what it posted is written all the same") {
  scratch_folder folder;
  write_range(folder / "a", 0, 3 * page);
  two_devices d;
  auto a = d.one.at(0), b = d.two.at(0);
  auto const fd = b.open(folder / "a", O_RDWR);
  REQUIRE(fd > 0);
  d.one.write(0, d.one.memory.version(fd), 2, std::byte{0xc1}, rpc::posted_busy);
  d.server.detach(0);
  CHECK(d.one.memory.stopped() == 1);
  CHECK(d.two.memory.stopped() == 0);
  CHECK(b.call({.op = rpc::operation::sync, .file = fd}) == 0);  // waits for no kernel of the first
  CHECK(byte_of(folder / "a", 2) == std::byte{0xc1});
  CHECK(b.read(fd, 0, page) == page);
  CHECK(b.data()[2] == std::byte{0xc1});
  d.server.stop();
  a.post_read(fd, 0, 10);
  d.server.start();
  CHECK(d.one.memory.stopped() == 1);
  CHECK(d.two.memory.stopped() == 0);
  CHECK(b.read(fd, page, page) == page);
  CHECK_FALSE(a.answered());
  CHECK(b.close(fd) == 0);
}

TEST_CASE("endpoints: a status that waits for a kernel's gwrite holds up no request of others") {
  scratch_folder folder;
  write_range(folder / "a", 0, 3 * page);
  device d;
  server daemon{d.memory.region, {.threads = 1}};
  daemon.start();
  auto a = d.at(0), b = d.at(1);
  for (bool const once : {false, true}) {
    CAPTURE(once);
    auto const fd = a.open(folder / "a", once ? int(rpc::open_write_once) : O_RDWR);
    REQUIRE(fd > 0);
    d.write(0, d.memory.version(fd), 5 * page, std::byte{1}, rpc::posted_busy);
    a.post({.op = rpc::operation::stat, .file = fd, .staging = a.staging()});
    if (!once) CHECK(a.wait() == 0);
    CHECK(b.call({.op = rpc::operation::nop}) == 0);
    CHECK(a.answered() == !once);
    d.end_gwrite(0);
    CHECK(a.wait() == 0);
    CHECK(a.close(fd) == 0);
  }
}

TEST_CASE("endpoints: callers of both get their own bytes while threads and engine are shared") {
  with_each_engine([](io_backend backend) {
    scratch_folder folder;
    constexpr std::uint64_t size = 1 << 20;
    write_range(folder / "a", 0, size);
    two_devices d{backend, 2};
    auto const fd = d.server.files().open(folder / "a", O_RDONLY);
    REQUIRE(fd > 0);
    constexpr std::uint64_t rounds = 200;
    std::vector<std::uint64_t> wrong(8);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        auto c = (t % 2 == 0 ? d.one : d.two).at(t);
        for (std::uint64_t i = 0; i < rounds; ++i) {
          auto const at = (t * 7919 + i * 104'729) % (size - 4096);
          if (c.read(fd, at, 4096) != 4096) ++wrong[t];
          wrong[t] += wrong_bytes(c.data(), at, 4096);
        }
      });
    for (auto& t : threads) t.join();
    CHECK(std::ranges::count(wrong, 0u) == 8);
    d.server.stop();
    CHECK(d.server.statistics(0).bytes_read == 4 * rounds * 4096);
    CHECK(d.server.statistics(1).bytes_read == 4 * rounds * 4096);
  });
}

TEST_CASE("endpoints: those that do not fit each other are refused") {
  region_memory usual{16, 16, 1 << 20, 8}, writing{16, 16, 1 << 20, 8, 4},
      other_files{16, 16, 1 << 20, 9};
  auto const message = [](std::vector<endpoint> const& list) -> std::string {
    try {
      server const made{list, two_devices::settings(io_backend::pread, 1)};
    } catch (std::invalid_argument const& e) {
      return e.what();
    }
    return {};
  };
  CHECK(message({usual.region, other_files.region}).find("max_open_files=9") != std::string::npos);
  CHECK(message({usual.region, writing.region}).find("write buffers") != std::string::npos);
  auto large_pages = writing.region;
  large_pages.writes.page_shift = 13;
  CHECK(message({writing.region, large_pages}).find("page size") != std::string::npos);
  CHECK(message({}).find("no endpoint") != std::string::npos);
}
