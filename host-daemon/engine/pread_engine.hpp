// Reads with pread(2), one at a time, in submit().
#pragma once

#include <host-daemon/engine/io_engine.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace gpufs::daemon {

/// Reads with pread(2), once. Returns the bytes read, or -errno.
[[nodiscard]] std::int64_t read_now(read_operation const& read) noexcept;

/// Reads that begin together, for a profiler: "read "FILE": 3 reads, 12288 bytes, pull".
[[nodiscard]] std::string text_of(std::span<read_operation const> reads);

class pread_engine final : public io_engine {
 public:
  int attach() override { return 0; }
  [[nodiscard]] std::size_t room() const override {
    return std::numeric_limits<std::size_t>::max();
  }
  std::optional<std::int64_t> submit(read_operation const& read) override;
  std::size_t poll(std::span<read_result>) override { return 0; }
  void wait(std::chrono::microseconds) override {}
  void forget(local_file&) override {}
};

}  // namespace gpufs::daemon
