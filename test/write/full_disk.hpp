// A filesystem whose disk is full until the test says otherwise.
#pragma once

#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::test {

struct full_disk {
  static constexpr std::uint64_t page = 512;

  scratch_folder folder;
  std::string path = folder / "file";
  std::atomic<bool> full{true};
  testing::filesystem fs{small_config(page, 16), faults()};

  std::shared_ptr<scripted_faults> faults() {
    auto all = std::make_shared<scripted_faults>();
    all->on_write = [this](std::uint64_t, std::uint64_t) {
      return full ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
    };
    return all;
  }
  /// Writes the first bytes of a file by a kernel.
  void write(int fd, std::vector<std::byte> const& bytes) {
    op_batch batch;
    auto const written = batch.write(0, fd, 0, bytes);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.result(written) == std::int64_t(bytes.size()));
  }
};

}  // namespace gpufs::test
