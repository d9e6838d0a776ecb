// The queue of offers to the window thread: no offer is lost or doubled, and a full queue refuses.
#include <host-daemon/backend/host_file.hpp>
#include <host-daemon/device_work/offer_queue.hpp>

#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>

using namespace gpufs::daemon;
using gpufs::test::make_file;
using gpufs::test::scratch_folder;

TEST_CASE("offer queue: every offer of many threads arrives once, those of one thread in order") {
  constexpr std::uint64_t threads = 4, each = 20'000;
  offer_queue queue;
  std::vector<std::thread> readers;
  for (std::uint64_t t = 0; t < threads; ++t)
    readers.emplace_back([&queue, t] {
      for (std::uint64_t i = 0; i < each;)
        queue.add({t, i, nullptr}) ? void(++i) : std::this_thread::yield();
    });
  std::vector<std::uint64_t> next(threads, 0);
  for (std::uint64_t taken = 0; taken < threads * each;) {
    auto const offer = queue.take(std::nullopt);
    if (!offer) continue;
    REQUIRE(offer->window == next[offer->version]++);
    ++taken;
  }
  for (auto& r : readers) r.join();
  CHECK_FALSE(queue.take(offer_queue::clock::now()).has_value());
}

TEST_CASE("offer queue: a full queue refuses, keeps no file that it refused, and goes on") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 1);
  auto const file =
      std::make_shared<host_file const>(::open(path.c_str(), O_RDONLY | O_CLOEXEC), path.c_str());
  {
    offer_queue queue;
    for (std::size_t i = 0; i < offer_queue::capacity; ++i) REQUIRE(queue.add({1, i, file}));
    CHECK(queue.seems_full());
    CHECK_FALSE(queue.add({1, 0, file}));
    CHECK(file.use_count() == 1 + long(offer_queue::capacity));
    queue.wake();
    std::uint64_t n = 0;
    while (auto const offer = queue.take(offer_queue::clock::now())) CHECK(offer->window == n++);
    CHECK(n == offer_queue::capacity);
    CHECK_FALSE(queue.seems_full());
    CHECK(queue.add({1, 0, file}));
  }
  CHECK(file.use_count() == 1);
}
