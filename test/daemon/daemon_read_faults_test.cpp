// Reads and opens through the daemon that fail, come back short or are held.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/daemons.hpp>

#include <doctest/doctest.h>

#include <functional>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::running_daemon;
using gpufs::test::scratch_folder;
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

}  // namespace

TEST_CASE("daemon: reads that come back short are continued until the request is whole") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10'000);
  with_each_engine([&](io_backend backend) {
    scripted_faults faults;
    faults.read = [](auto&, auto, auto) { return fault_action::shorten(777); };
    running_daemon s{backend, &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    CHECK(c.read(fd, 100, 5000) == 5000);
    CHECK(wrong_bytes(c.data(), 100, 5000) == 0);
    CHECK(s.server.statistics().reads_issued == (5000 + 776) / 777);
    CHECK(c.read(fd, 9000, 5000) == 1000);
    CHECK(wrong_bytes(c.data(), 9000, 1000) == 0);
    CHECK(s.server.statistics().bytes_read == 6000);
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
    running_daemon s{backend, &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    CHECK(c.read(fd, 1000, 8000) == 3000);
    CHECK(wrong_bytes(c.data(), 1000, 3000) == 0);
    CHECK(c.read(fd, 4000, 5000) == -EIO);
    CHECK(c.read(fd, 0, 4000) == 4000);
    CHECK(s.server.statistics().failed == 1);
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
    running_daemon s{backend, &faults};
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
    running_daemon s{backend, &faults, 1};
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
    running_daemon s{backend, &faults, 1};
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
    running_daemon s{backend, &faults, 1};
    CHECK(s.callers[0].open(folder / "b") == -EMFILE);
    s.callers[1].post_open(held);
    wait_until([&] { return gate_->arrivals() == 1; }, "a held open");
    CHECK(s.callers[0].call({.op = rpc::operation::nop}) == 0);
    CHECK_FALSE(s.callers[1].answered());
    gate_->release();
    CHECK(s.callers[1].wait() > 0);
  });
}
