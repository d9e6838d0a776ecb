// Blocks in memory, for disks of tests that change what some commands do.
#pragma once

#include <nvme-controller/block_namespace.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace gpufs::test {

/// Hands every command on to a memory_namespace.
struct forwarding_memory : nvme_controller::block_namespace {
  using segments = std::span<nvme_controller::segment const>;
  std::shared_ptr<nvme_controller::memory_namespace> const memory;

  explicit forwarding_memory(std::shared_ptr<nvme_controller::memory_namespace> of)
      : memory{std::move(of)} {}
  [[nodiscard]] std::uint32_t lba_bytes() const override { return memory->lba_bytes(); }
  [[nodiscard]] std::uint64_t blocks() const override { return memory->blocks(); }
  std::uint16_t read(std::uint64_t offset, segments to) override {
    return memory->read(offset, to);
  }
  std::uint16_t write(std::uint64_t offset, segments from) override {
    return memory->write(offset, from);
  }
  std::uint16_t write_zeroes(std::uint64_t offset, std::uint64_t bytes) override {
    return memory->write_zeroes(offset, bytes);
  }
  std::uint16_t flush() override { return memory->flush(); }
};

}  // namespace gpufs::test
