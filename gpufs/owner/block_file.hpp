// A volume of NVMe drives as a file of the daemon.
#pragma once

#include <gpufs/nvme.hpp>
#include <gpufs/owner/device_drives.hpp>

#include <host-daemon/backend/stored_file.hpp>

#include <nvme-host/drive_watch.hpp>
#include <nvme-host/volume.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gpufs::owner {

/// Its size is fixed. It has no descriptor. Device and inode number are those of no other file.
class block_file final : public daemon::stored_file {
 public:
  struct traits {
    bool read_only = false;
    bool modelled = false;               ///< its members have a drive_model
    bool relays_doorbells = false;       ///< kernels' doorbells go through a thread of the host
    bool unreachable_doorbells = false;  ///< kernels cannot ring, and no thread does it for them
  };
  /// `path`: for traces. Throws std::bad_alloc.
  block_file(std::unique_ptr<nvme_host::volume> volume, std::string_view path, traits const& of);

  [[nodiscard]] int read_descriptor() const noexcept override { return -1; }
  [[nodiscard]] std::string_view traced_name() const noexcept override { return traced_name_; }
  /// Not usable.
  [[nodiscard]] daemon::direct_file const& direct() const override { return direct_; }
  [[nodiscard]] int status(struct ::stat& out) const noexcept override;
  [[nodiscard]] std::int64_t read(std::span<std::byte> to,
                                  std::uint64_t offset) const noexcept override;
  [[nodiscard]] std::int64_t write(std::span<::iovec const> parts,
                                   std::uint64_t offset) const noexcept override;
  [[nodiscard]] int sync() const noexcept override;
  [[nodiscard]] int truncate(std::uint64_t) const noexcept override { return -EINVAL; }
  /// Nothing: there is no OS page cache to advise.
  int advise(std::int64_t, std::int64_t, int) const noexcept override { return 0; }
  [[nodiscard]] std::optional<std::vector<daemon::file_extent>> extents(
      std::uint64_t, std::uint64_t) const override {
    return std::nullopt;
  }

  /// Ends the kernels' commands first.
  ~block_file() override;

  [[nodiscard]] nvme_host::volume& volume() const { return *volume_; }
  [[nodiscard]] traits const& kind() const { return traits_; }
  [[nodiscard]] nvme::attachment_statistics statistics() const;

  /// Lets kernels read the file by themselves, as backing `number`. Before the first open.
  /// Throws std::system_error: there is no thread.
  void read_by_kernels(std::shared_ptr<device_drives> drives, std::uint8_t number);
  /// Says why they cannot.
  void not_by_kernels(std::string why) { why_not_ = std::move(why); }
  [[nodiscard]] std::uint8_t block_backing() const noexcept override { return backing_; }

 private:
  std::unique_ptr<nvme_host::volume> const volume_;
  std::string const traced_name_;
  traits const traits_;
  std::uint64_t const inode_;
  ::timespec const made_;
  daemon::direct_file const direct_{-1};
  std::shared_ptr<device_drives> drives_;          // null: kernels do not read it
  std::unique_ptr<nvme_host::drive_watch> watch_;  // of the drives that they use
  std::uint8_t backing_ = 0;
  std::string why_not_;
};

}  // namespace gpufs::owner
