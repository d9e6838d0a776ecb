// Reads through the daemon, with each I/O engine: alignment, end of file, large offsets, faults,
// closes.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <mutex>
#include <random>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::wait_until;
using gpufs::test::with_each_engine;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

namespace {

struct scripted_faults final : fault_injector {
  std::function<fault_action(rpc::request const&, std::uint64_t offset, std::uint64_t length)> read;
  std::function<fault_action(std::string_view)> open;

  fault_action before_read(rpc::request const& r, std::uint64_t offset,
                           std::uint64_t length) override {
    return read ? read(r, offset, length) : fault_action::pass();
  }
  fault_action before_open(std::string_view path) override {
    return open ? open(path) : fault_action::pass();
  }
};

// A running daemon and a caller for each channel.
struct setup {
  explicit setup(io_backend backend, fault_injector* faults = nullptr, unsigned threads = 2,
                 std::uint64_t channels = 16)
      : memory{16, channels, 4 << 20, 64},
        tickets{memory.region},
        daemon{memory.region, settings(backend, threads), faults} {
    for (std::uint32_t c = 0; c < channels; ++c) callers.emplace_back(memory.region, tickets, c);
    daemon.start();
  }

  static server_settings settings(io_backend backend, unsigned threads) {
    server_settings s;
    s.threads = threads;
    s.backend = backend;
    s.queue_depth = 8;
    s.path = gpufs::io_path::pull;  // direct reads may touch more than they were asked for:
                                    // daemon_direct_test
    return s;
  }

  region_memory memory;
  ticket_source tickets;
  std::vector<caller> callers;
  server daemon;
};

}  // namespace

TEST_CASE(
    "daemon: a read at any offset and length gives the file's bytes, short at its end, none "
    "beyond") {
  scratch_folder folder;
  std::uint64_t const size = 100'003;
  write_range(folder / "a", 0, size);
  with_each_engine([&](io_backend backend) {
    setup s{backend};
    auto& c = s.callers[3];
    auto const fd = c.open(folder / "a");
    REQUIRE(fd > 0);
    std::mt19937_64 random{gpufs::test::seed()};
    for (int i = 0; i < 400; ++i) {
      std::uint64_t const offset = i == 0   ? 0
                                   : i == 1 ? size
                                   : i == 2 ? size - 1
                                            : random() % (size + 5000);
      std::uint64_t const length = i % 7 == 0 ? c.capacity() : random() % 20'000;
      std::uint64_t const expected = offset >= size ? 0 : std::min(length, size - offset);
      CAPTURE(offset);
      CAPTURE(length);
      std::memset(c.data(), 0xee, c.capacity());
      REQUIRE(c.read(fd, offset, length) == std::int32_t(expected));
      REQUIRE(wrong_bytes(c.data(), offset, expected) == 0);
      if (expected < c.capacity()) REQUIRE(c.data()[expected] == std::byte{0xee});
    }
    CHECK(c.close(fd) == 0);
    CHECK(c.read(fd, 0, 1) == -EBADF);
  });
}

TEST_CASE("daemon: an empty file reads as its end") {
  scratch_folder folder;
  write_range(folder / "empty", 0, 0);
  with_each_engine([&](io_backend backend) {
    setup s{backend};
    auto const fd = s.callers[0].open(folder / "empty");
    CHECK(s.callers[0].read(fd, 0, 4096) == 0);
    CHECK(s.callers[0].read(fd, 1ull << 40, 4096) == 0);
  });
}

TEST_CASE("daemon: sparse files are read right beyond 4 GiB") {
  scratch_folder folder;
  auto const far = (std::uint64_t(5) << 30) + 12345;
  write_range(folder / "a", far, 10'000);
  with_each_engine([&](io_backend backend) {
    setup s{backend};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    REQUIRE(fd > 0);
    CHECK(s.memory.size(fd) == far + 10'000);
    CHECK(c.read(fd, far + 5000, 20'000) == 5000);
    CHECK(wrong_bytes(c.data(), far + 5000, 5000) == 0);
    CHECK(c.read(fd, far - 4096, 8192) == 8192);
    CHECK(std::all_of(c.data(), c.data() + 4096, [](std::byte b) { return b == std::byte{0}; }));
    CHECK(wrong_bytes(c.data() + 4096, far, 4096) == 0);
    CHECK(c.read(fd, far & 0xffffffff, 4096) == 4096);
    CHECK(c.data()[0] == std::byte{0});
  });
}

TEST_CASE("daemon: many callers, few slots: each gets the bytes it asked for") {
  scratch_folder folder;
  std::uint64_t const size = 1 << 20;
  write_range(folder / "a", 0, size);
  write_range(folder / "b", 0, size / 2);
  with_each_engine([&](io_backend backend) {
    setup s{backend, nullptr, 3};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < s.callers.size(); ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 random{gpufs::test::seed() + i};
        auto& c = s.callers[i];
        for (int n = 0; n < 40; ++n) {
          bool const a = random() % 2;
          auto const fd = c.open(folder / (a ? "a" : "b"));
          for (int k = 0; k < 3; ++k) {
            auto const offset = random() % (size / 2 - 70'000), length = 1 + random() % 65'536;
            if (c.read(fd, offset, length) != std::int32_t(length) ||
                wrong_bytes(c.data(), offset, length) != 0)
              ++wrong;
          }
          if (c.close(fd) != 0) ++wrong;
        }
      });
    }
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(s.daemon.files().open_count() == 0);
    CHECK(s.daemon.statistics().requests == s.callers.size() * 40 * 5);
    CHECK(s.daemon.statistics().failed == 0);
  });
}

TEST_CASE("daemon: reads that come back short are continued until the request is whole") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10'000);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    faults.read = [](auto&, auto, auto) { return fault_action::shorten(777); };
    setup s{backend, &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    CHECK(c.read(fd, 100, 5000) == 5000);
    CHECK(wrong_bytes(c.data(), 100, 5000) == 0);
    CHECK(s.daemon.statistics().reads_issued == (5000 + 776) / 777);
    CHECK(c.read(fd, 9000, 5000) == 1000);
    CHECK(wrong_bytes(c.data(), 9000, 1000) == 0);
    CHECK(s.daemon.statistics().bytes_read == 6000);
  });
}

TEST_CASE("daemon: a read that fails half way gives the bytes before, and the next one the error") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10'000);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    faults.read = [](auto&, std::uint64_t offset, auto) {
      return offset >= 4000 ? fault_action::fail(EIO) : fault_action::shorten(4000 - offset);
    };
    setup s{backend, &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    CHECK(c.read(fd, 1000, 8000) == 3000);
    CHECK(wrong_bytes(c.data(), 1000, 3000) == 0);
    CHECK(c.read(fd, 4000, 5000) == -EIO);
    CHECK(c.read(fd, 0, 4000) == 4000);
    CHECK(s.daemon.statistics().failed == 1);
  });
}

TEST_CASE("daemon: interrupted reads are tried again, but not for ever") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10'000);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    std::atomic<int> refusals{0};
    std::atomic<int> error{EINTR};
    faults.read = [&](auto&, auto, auto) {
      return refusals-- > 0 ? fault_action::fail(error) : fault_action::pass();
    };
    setup s{backend, &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    refusals = 20;
    CHECK(c.read(fd, 1, 9000) == 9000);
    refusals = 20, error = EAGAIN;
    CHECK(c.read(fd, 1, 9000) == 9000);
    refusals = 1'000'000;
    CHECK(c.read(fd, 1, 9000) == -EAGAIN);
  });
}

TEST_CASE(
    "daemon: a held read blocks neither its thread nor other requests, and ends when it is let "
    "go") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10'000);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    auto const gate_ = std::make_shared<gate>();
    faults.read = [&](rpc::request const& r, auto, auto) {
      return r.offset < 15 ? fault_action::hold(gate_) : fault_action::pass();
    };
    setup s{backend, &faults, 1};
    auto const fd = s.callers[0].open(folder / "a");
    for (std::uint64_t i = 0; i < 15; ++i) s.callers[i].post_read(fd, i, 100);
    wait_until([&] { return gate_->arrivals() == 15; }, "15 held reads");
    auto& other = s.callers[15];
    for (std::uint64_t i = 0; i < 50; ++i) {
      REQUIRE(other.read(fd, 100 + i, 1000) == 1000);
      REQUIRE(wrong_bytes(other.data(), 100 + i, 1000) == 0);
    }
    for (int i = 0; i < 15; ++i) CHECK_FALSE(s.callers[std::size_t(i)].answered());
    gate_->release();
    for (std::uint64_t i = 0; i < 15; ++i) {
      CHECK(s.callers[i].wait() == 100);
      CHECK(wrong_bytes(s.callers[i].data(), i, 100) == 0);
    }
  });
}

TEST_CASE(
    "daemon: a descriptor closed while a read of it is held: the read still ends, with the right "
    "bytes") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10'000);
  write_range(folder / "b", 5'000'000, 10'000);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    auto const gate_ = std::make_shared<gate>();
    faults.read = [&](rpc::request const& r, auto, auto) {
      return r.offset == 7 ? fault_action::hold(gate_) : fault_action::pass();
    };
    setup s{backend, &faults, 1};
    auto const fd = s.callers[0].open(folder / "a");
    s.callers[1].post_read(fd, 7, 1000);
    wait_until([&] { return gate_->arrivals() == 1; }, "a held read");
    CHECK(s.callers[0].close(fd) == 0);
    CHECK(s.callers[0].read(fd, 0, 10) == -EBADF);
    CHECK(s.callers[0].open(folder / "b") > 0);
    gate_->release();
    CHECK(s.callers[1].wait() == 1000);
    CHECK(wrong_bytes(s.callers[1].data(), 7, 1000) == 0);
  });
}

TEST_CASE("daemon: opens can fail and be held by injection") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    auto const gate_ = std::make_shared<gate>();
    auto const held = folder / "a";
    faults.open = [&](std::string_view path) {
      return path == held ? fault_action::hold(gate_) : fault_action::fail(EMFILE);
    };
    setup s{backend, &faults, 1};
    CHECK(s.callers[0].open(folder / "b") == -EMFILE);
    s.callers[1].post_open(held);
    wait_until([&] { return gate_->arrivals() == 1; }, "a held open");
    CHECK(s.callers[0].call({.op = rpc::operation::nop}) == 0);
    CHECK_FALSE(s.callers[1].answered());
    gate_->release();
    CHECK(s.callers[1].wait() > 0);
  });
}

TEST_CASE(
    "daemon: a file is closed indeed soon after its last descriptor, however often each thread has "
    "read it") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 10'000);
  // The kernel grants a write lease only if no other process has the file open.
  int const own = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(own >= 0);
  auto const alone = [&] { return ::fcntl(own, F_SETLEASE, F_WRLCK) == 0; };
  if (!alone()) {
    MESSAGE("skipped: no leases on this file system");
    ::close(own);
    return;
  }
  with_each_engine([&](io_backend backend) {
    ::fcntl(own, F_SETLEASE, F_UNLCK);
    setup s{backend, nullptr, 3};
    auto const fd = s.callers[0].open(path);
    REQUIRE(fd > 0);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        for (int n = 0; n < 50; ++n) s.callers[i].read(fd, 0, 1000);
      });
    for (auto& t : threads) t.join();
    CHECK_FALSE(alone());
    CHECK(s.callers[0].close(fd) == 0);
    wait_until(alone, "a write lease, which needs the daemon to have closed the file");
  });
  ::close(own);
}
