// A stored file that passes calls on to another one, for tests that change some of them. It has no
// view, no backing and no name.
#pragma once

#include <host-daemon/backend/stored_file.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/uio.h>

namespace gpufs::test {

struct forwarding_file : daemon::stored_file {
  explicit forwarding_file(std::shared_ptr<stored_file const> file) : below{std::move(file)} {}
  std::shared_ptr<stored_file const> below;

  int read_descriptor() const noexcept override { return below->read_descriptor(); }
  daemon::direct_file const& direct() const override { return below->direct(); }
  int status(struct ::stat& out) const noexcept override { return below->status(out); }
  std::int64_t read(std::span<std::byte> to, std::uint64_t offset) const noexcept override {
    return below->read(to, offset);
  }
  std::int64_t write(std::span<::iovec const> parts, std::uint64_t offset) const noexcept override {
    return below->write(parts, offset);
  }
  int sync() const noexcept override { return below->sync(); }
  int begin_sync(std::uint64_t offset, std::uint64_t length) const noexcept override {
    return below->begin_sync(offset, length);
  }
  int end_writes() const noexcept override { return below->end_writes(); }
  int truncate(std::uint64_t size) const noexcept override { return below->truncate(size); }
  int advise(std::int64_t offset, std::int64_t length, int what) const noexcept override {
    return below->advise(offset, length, what);
  }
  std::optional<std::vector<daemon::file_extent>> extents(std::uint64_t offset,
                                                          std::uint64_t length) const override {
    return below->extents(offset, length);
  }
};

}  // namespace gpufs::test
