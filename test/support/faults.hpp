// A fault injector whose decisions are functions of the test.
#pragma once

#include <gpufs/testing/faults.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace gpufs::test {

/// Asks a function before each operation:
/// on_read   Before each read of a file.
/// on_open   Before each open by a kernel.
/// on_write  Before dirty pages are written.
/// on_sync   Before dirty pages are made durable.
/// Several threads call them at once. Do not change them while the filesystem lives. An empty
/// function lets every operation pass.
struct scripted_faults final : testing::fault_injector {
  std::function<testing::fault_action(std::uint64_t offset, std::uint64_t length)> on_read;
  std::function<testing::fault_action(std::string_view path)> on_open;
  std::function<testing::fault_action(std::uint64_t offset, std::uint64_t length)> on_write;
  std::function<testing::fault_action()> on_sync;

  testing::fault_action before_read(rpc::request const&, std::uint64_t offset,
                                    std::uint64_t length) override {
    return on_read ? on_read(offset, length) : testing::fault_action::pass();
  }
  testing::fault_action before_open(std::string_view path) override {
    return on_open ? on_open(path) : testing::fault_action::pass();
  }
  testing::fault_action before_write(int, std::uint64_t offset, std::uint64_t length) override {
    return on_write ? on_write(offset, length) : testing::fault_action::pass();
  }
  testing::fault_action before_sync(int) override {
    return on_sync ? on_sync() : testing::fault_action::pass();
  }
};

/// Faults on reads alone.
inline std::shared_ptr<scripted_faults> read_faults(
    std::function<testing::fault_action(std::uint64_t, std::uint64_t)> on_read) {
  auto faults = std::make_shared<scripted_faults>();
  faults->on_read = std::move(on_read);
  return faults;
}

/// Faults on reads that have byte `at` of a file. `fault` says which, each time.
inline std::shared_ptr<scripted_faults> read_faults_at(
    std::uint64_t at, std::function<testing::fault_action()> fault) {
  return read_faults([at, fault = std::move(fault)](std::uint64_t offset, std::uint64_t length) {
    return offset <= at && at < offset + length ? fault() : testing::fault_action::pass();
  });
}

}  // namespace gpufs::test
