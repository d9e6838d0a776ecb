// An open file of a host's file system.
#pragma once

#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/file_view.hpp>
#include <host-daemon/base/json_string.hpp>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::daemon {

/// Owns its descriptor: the last owner of the object closes it.
class host_file final : public stored_file {
 public:
  /// `path`: by which it was opened, for traces. Throws std::bad_alloc.
  explicit host_file(int fd, std::string_view path = {})
      : fd_{fd}, traced_name_{json_string(path)}, view_{fd} {}
  host_file(host_file const&) = delete;
  host_file& operator=(host_file const&) = delete;
  ~host_file() override;

  [[nodiscard]] int read_descriptor() const noexcept override { return fd_; }
  [[nodiscard]] file_view* view() const noexcept override { return &view_; }
  [[nodiscard]] std::string_view traced_name() const noexcept override { return traced_name_; }
  [[nodiscard]] direct_file const& direct() const override;
  [[nodiscard]] int status(struct ::stat& out) const noexcept override;
  [[nodiscard]] std::int64_t read(std::span<std::byte> to,
                                  std::uint64_t offset) const noexcept override;
  [[nodiscard]] std::int64_t write(std::span<::iovec const> parts,
                                   std::uint64_t offset) const noexcept override;
  [[nodiscard]] int sync() const noexcept override;
  [[nodiscard]] int begin_sync(std::uint64_t offset, std::uint64_t length) const noexcept override;
  [[nodiscard]] int end_writes() const noexcept override;
  [[nodiscard]] int truncate(std::uint64_t size) const noexcept override;
  [[nodiscard]] int allocate(std::uint64_t offset, std::uint64_t length) const noexcept override;
  int advise(std::int64_t offset, std::int64_t length, int advice) const noexcept override;

  /// As FIEMAP tells. It first has the file system place the file's dirty pages.
  /// Addresses count from the start of the block device that holds the file system.
  [[nodiscard]] std::optional<std::vector<file_extent>> extents(
      std::uint64_t offset, std::uint64_t length) const override;

 private:
  int fd_;
  std::string const traced_name_;
  mutable file_view view_;                     // thread-safe
  mutable std::mutex opening_;                 // guards direct_
  mutable std::optional<direct_file> direct_;  // empty until the first direct()
};

}  // namespace gpufs::daemon
