// A fault injector whose decisions are functions of the test.
#pragma once

#include <host-daemon/fault_injector.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace gpufs::test {

/// Asks `on_read(offset, length)` before each read of a file, `on_open(path)` before each open by a
/// kernel, `on_write` and `on_sync` before dirty pages are written and made durable. They are
/// called by several threads at once and must not be changed while the filesystem lives; empty ones
/// let everything pass.
struct scripted_faults final : daemon::fault_injector {
  std::function<daemon::fault_action(std::uint64_t offset, std::uint64_t length)> on_read;
  std::function<daemon::fault_action(std::string_view path)> on_open;
  std::function<daemon::fault_action(std::uint64_t offset, std::uint64_t length)> on_write;
  std::function<daemon::fault_action()> on_sync;

  daemon::fault_action before_read(rpc::request const&, std::uint64_t offset,
                                   std::uint64_t length) override {
    return on_read ? on_read(offset, length) : daemon::fault_action::pass();
  }
  daemon::fault_action before_open(std::string_view path) override {
    return on_open ? on_open(path) : daemon::fault_action::pass();
  }
  daemon::fault_action before_write(int, std::uint64_t offset, std::uint64_t length) override {
    return on_write ? on_write(offset, length) : daemon::fault_action::pass();
  }
  daemon::fault_action before_sync(int) override {
    return on_sync ? on_sync() : daemon::fault_action::pass();
  }
};

/// Faults on reads alone.
inline std::shared_ptr<scripted_faults> read_faults(
    std::function<daemon::fault_action(std::uint64_t, std::uint64_t)> on_read) {
  auto faults = std::make_shared<scripted_faults>();
  faults->on_read = std::move(on_read);
  return faults;
}

}  // namespace gpufs::test
