// Opens whose caller gives up: what the daemon answers, as the caller may have seen that the open
// had begun, and wait for the answer.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/daemons.hpp>
#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/forwarding_storage.hpp>

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

// A daemon with one caller, which gives up its first request when the test says so.
struct giving_up {
  scratch_folder folder;
  std::string path = make_file(folder, "file", 1000);
  region_memory memory{16, 16, 1 << 20, 8, 4};
  ticket_source tickets{memory.region};
  caller first{memory.region, tickets, 0};

  void give_up() const {
    // As ring::give_up() does. The first request of a channel has sequence 1.
    std::atomic_ref<std::uint64_t>{memory.region.completions[0].given_up}.store(1);
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
