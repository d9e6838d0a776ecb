// Calls whose caller gives up. Of opens: what the daemon answers, as the caller may have seen that
// the open had begun, and wait for the answer. Of syncs and closes: who is told of an error. Of
// unlinks: what is removed.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/daemons.hpp>
#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/forwarding_storage.hpp>
#include <test/support/leased_file.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <fcntl.h>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::rpc::operation;
using gpufs::rpc::request;
using gpufs::test::caller;
using gpufs::test::make_file;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::with;

namespace {

// An ordinary file that calls `before` whenever it is truncated.
struct noticed_file final : gpufs::test::forwarding_file {
  noticed_file(std::shared_ptr<stored_file const> file, std::function<void()> call)
      : forwarding_file{std::move(file)}, before{std::move(call)} {}
  std::function<void()> before;
  int truncate(std::uint64_t size) const noexcept override {
    before();
    return below->truncate(size);
  }
};

struct noticed_storage final : gpufs::test::forwarding_storage {
  explicit noticed_storage(std::function<void()> call) : before{std::move(call)} {}
  std::function<void()> before;

  std::shared_ptr<stored_file const> wrap(std::shared_ptr<stored_file const> file) override {
    return std::make_shared<noticed_file const>(std::move(file), before);
  }
};

// Files of which the first end of writing fails.
struct refusing_storage final : gpufs::test::forwarding_storage {
  struct file final : gpufs::test::forwarding_file {
    std::atomic<bool>& refuses;
    file(std::shared_ptr<stored_file const> f, std::atomic<bool>& r)
        : forwarding_file{std::move(f)}, refuses{r} {}
    int end_writes() const noexcept override { return refuses.exchange(false) ? -EDQUOT : 0; }
  };
  std::atomic<bool> refuses{true};
  std::shared_ptr<stored_file const> wrap(std::shared_ptr<stored_file const> f) override {
    return std::make_shared<file const>(std::move(f), refuses);
  }
};

// A daemon with one caller, which gives up a request when the test says so. Its requests have the
// sequences 1, 2, 3 and so on.
struct giving_up {
  scratch_folder folder;
  std::string path = make_file(folder, "file", 1000);
  region_memory memory{16, 16, 1 << 20, 8, 4};
  ticket_source tickets{memory.region};
  caller first{memory.region, tickets, 0};

  // As ring::give_up() does.
  void give_up(std::uint64_t sequence = 1) const {
    std::atomic_ref<std::uint64_t>{memory.region.completions[0].given_up}.store(sequence);
  }
  [[nodiscard]] bool has_begun() const {
    return std::atomic_ref<std::uint64_t>{memory.region.completions[0].begun}.load() == 1;
  }
  [[nodiscard]] unsigned open_files() const {
    unsigned n = 0;
    for (std::int32_t i = 0; i < 8; ++i) n += memory.tag(i) != 0 ? 1 : 0;
    return n;
  }
};

auto with_refusing_storage() {
  auto settings = with(io_backend::automatic);
  settings.files.storage = std::make_shared<refusing_storage>();
  return settings;
}

// Two descriptors for writing of a file whose first end of writing fails. Sequences 1 and 2 are
// their opens.
struct two_writers : giving_up {
  server daemon{memory.region, with_refusing_storage()};
  std::int32_t fd = 0, other = 0;

  two_writers() {
    daemon.start();
    fd = first.open(path, O_RDWR);
    other = first.open(path, O_WRONLY);
    REQUIRE(other > 0);
    REQUIRE(other != fd);
  }
  std::int32_t close_other(bool drops_the_result) {
    request close{.op = operation::close, .file = other};
    if (drops_the_result) close.argument[0] = gpufs::rpc::tells_nobody;
    return first.call(close);
  }
  std::int32_t sync() { return first.call({.op = operation::sync, .file = fd}); }
};

}  // namespace

TEST_CASE("given-up opens: a caller that waits nevertheless gets -ETIMEDOUT, and no file is open") {
  for (int const flags : {O_RDONLY, O_RDWR, O_RDWR | O_TRUNC}) {
    CAPTURE(flags);
    giving_up g;
    server daemon{g.memory.region, with(io_backend::automatic)};
    daemon.start();
    g.give_up();
    CHECK(g.first.open(g.path, flags) == -ETIMEDOUT);
    CHECK(g.has_begun());
    CHECK(g.open_files() == 0);
    CHECK(std::filesystem::file_size(g.path) == 1000);
  }
}

TEST_CASE("given-up opens: one that waits for a lease holds up no other call, and ends") {
  giving_up g;
  gpufs::test::leased_file const leased{1000};
  if (!leased.is_leased()) return;
  server daemon{g.memory.region, with(io_backend::automatic)};
  daemon.start();
  caller second{g.memory.region, g.tickets, 1};
  auto const fd = second.open(g.path, O_RDWR);
  REQUIRE(fd > 0);
  g.first.post_open(leased.path());
  gpufs::test::wait_until([&] { return leased.is_wanted(); }, "the open");
  for (int i = 0; i < 10; ++i) CHECK(second.call({.op = operation::sync, .file = fd}) == 0);
  CHECK(second.close(fd) == 0);
  CHECK(g.open_files() == 0);
  g.give_up();
  CHECK(g.first.wait() == -ETIMEDOUT);
}

TEST_CASE("given-up unlinks: the name stays, which may be that of another file by now") {
  giving_up g;
  server daemon{g.memory.region, with(io_backend::automatic)};
  daemon.start();
  g.give_up();
  CHECK(g.first.unlink(g.path) == -ETIMEDOUT);
  CHECK(g.has_begun());
  CHECK(std::filesystem::exists(g.path));
  CHECK(g.first.unlink(g.path) == 0);
  CHECK(!std::filesystem::exists(g.path));
}

TEST_CASE("given-up opens: a caller that gave up during the truncation gets the descriptor") {
  giving_up g;
  auto settings = with(io_backend::automatic);
  settings.files.storage = std::make_shared<noticed_storage>([&] {
    CHECK(g.has_begun());  // so the caller waits for the answer
    g.give_up();
  });
  server daemon{g.memory.region, settings};
  daemon.start();
  auto const fd = g.first.open(g.path, O_RDWR | O_TRUNC);
  REQUIRE(fd > 0);
  CHECK(g.open_files() == 1);
  CHECK(std::filesystem::file_size(g.path) == 0);
  CHECK(g.first.close(fd) == 0);
  CHECK(g.open_files() == 0);
}

TEST_CASE("given-up closes: an error that nobody was told of is told by the next close") {
  enum class caller_state { waits, has_given_up, drops_the_result };
  using enum caller_state;
  for (auto const state : {waits, has_given_up, drops_the_result}) {
    CAPTURE(int(state));
    two_writers t;
    if (state == has_given_up) t.give_up(3);
    CHECK(t.close_other(state == drops_the_result) == (state == waits ? -EDQUOT : -ETIMEDOUT));
    CHECK(t.open_files() == 1);
    CHECK(t.first.close(t.fd) == (state == waits ? 0 : -EDQUOT));
  }
}

TEST_CASE("given-up syncs: the error is told by the next sync or close") {
  for (bool const by_sync : {true, false}) {
    CAPTURE(by_sync);
    two_writers t;
    CHECK(t.close_other(true) == -ETIMEDOUT);
    t.give_up(4);
    CHECK(t.sync() == -ETIMEDOUT);
    if (by_sync) CHECK(t.sync() == -EDQUOT);
    CHECK(t.first.close(t.fd) == (by_sync ? 0 : -EDQUOT));
  }
}
