// A device that notes the calls of the window thread, and the thread alone with it.
#pragma once

#include <host-daemon/backend/host_file.hpp>
#include <host-daemon/device_work/window_registrar.hpp>
#include <host-daemon/files/file_registry.hpp>

#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>

namespace gpufs::test {

using namespace daemon;

constexpr std::uint64_t window = 64 << 10;

/// The calls that the device has seen. Addresses count up.
struct fake_device {
  std::mutex mutex;  // guards all but the atomics
  std::map<std::uint64_t, published_window> table;
  std::set<std::uint64_t> mapped;
  std::vector<std::uint64_t> unmapped;
  std::uint64_t last_address = 0;
  std::string trouble;
  std::atomic<bool> idles{true};
  std::atomic<bool> refuses{false}, refuses_withdrawal{false}, no_mmap{false};
  std::atomic<bool> over{false};  // no kernel looks at the table any more
  std::atomic<unsigned> calls{0};

  std::vector<std::uint64_t> windows(std::uint64_t version) {
    std::lock_guard const lock{mutex};
    std::vector<std::uint64_t> all;
    for (auto const& [entry, w] : table)
      if (w.version == version) all.push_back(w.window);
    std::sort(all.begin(), all.end());
    return all;
  }
  std::size_t mapped_now() {
    std::lock_guard const lock{mutex};
    return mapped.size();
  }
};

struct fake_mapper final : window_mapper {
  fake_mapper(fake_device& d, std::uint64_t entries) : device{d}, size{entries} {}
  fake_device& device;
  std::uint64_t size;

  outcome map(int, std::uint64_t, std::uint64_t bytes, registered_window& out,
              std::string& why) override {
    ++device.calls;
    std::lock_guard const lock{device.mutex};
    if (device.refuses || device.no_mmap) {
      why = "no such thing";
      return device.no_mmap ? outcome::no_file : outcome::no_device;
    }
    out = {++device.last_address, bytes, nullptr};
    device.mapped.insert(out.address);
    return outcome::mapped;
  }
  void unmap(registered_window const& w) noexcept override {
    std::lock_guard const lock{device.mutex};
    if (device.mapped.erase(w.address) != 1)
      device.trouble = "a window unmapped that is not mapped";
    device.unmapped.push_back(w.address);
    for (auto const& [entry, published] : device.table)
      if (published.address == w.address && !device.over)
        device.trouble = "a window unmapped that can be found";
  }
  std::uint64_t entries() const noexcept override { return size; }
  bool publish(std::uint64_t entry, published_window const& w) noexcept override {
    std::lock_guard const lock{device.mutex};
    if (entry >= size || !device.table.emplace(entry, w).second)
      device.trouble = "an entry that is not there, or not empty";
    return true;
  }
  bool withdraw(std::uint64_t entry) noexcept override {
    std::lock_guard const lock{device.mutex};
    if (device.refuses_withdrawal) return false;
    if (device.table.erase(entry) != 1) device.trouble = "an empty entry emptied";
    return true;
  }
  bool idle() noexcept override { return device.idles; }
};

/// A registrar. At its end it checks that all its windows are gone.
struct fixture {
  explicit fixture(std::uint64_t budget, std::uint64_t entries = 64,
                   cachestat_function cachestat = {}, fault_injector* faults = nullptr)
      : registrar{
            std::make_unique<window_registrar>(std::make_unique<fake_mapper>(device, entries),
                                               window_settings{.window_bytes = window,
                                                               .budget = budget,
                                                               .turn = std::chrono::milliseconds{1},
                                                               .cachestat = std::move(cachestat)},
                                               faults)} {}
  ~fixture() {
    end();
    CHECK(device.mapped_now() == 0);
    CHECK(device.trouble == "");
  }
  void end() {
    device.over = true;
    registrar.reset();
  }
  fixture(fixture const&) = delete;
  fixture& operator=(fixture const&) = delete;

  std::shared_ptr<host_file const> file(std::string const& name, std::uint64_t size) {
    auto const path = make_file(folder, name, size);
    return std::make_shared<host_file const>(::open(path.c_str(), O_RDONLY | O_CLOEXEC),
                                             path.c_str());
  }
  /// Reads windows again and again until `condition` holds.
  template <class Condition>
  void read_until(std::uint64_t version, std::shared_ptr<host_file const> const& f,
                  std::uint64_t begin, std::uint64_t bytes, Condition&& condition) {
    wait_until(
        [&] {
          registrar->touched(version, f, begin, bytes);
          return condition();
        },
        "windows as they should be");
  }

  scratch_folder folder;
  fake_device device;
  std::unique_ptr<window_registrar> registrar;
};

using windows = std::vector<std::uint64_t>;

}  // namespace gpufs::test
