// The storage backend of ordinary files: those of the host's file systems.
#pragma once

#include <host-daemon/backend/storage_backend.hpp>

#include <string>

#include <sys/types.h>

namespace gpufs::daemon {

/// Returns 0 if a file of this mode can be read as a file, else -EISDIR or -EOPNOTSUPP.
[[nodiscard]] int kind_error(mode_t mode) noexcept;

/// Has no state. Each file is a host_file.
class host_storage final : public storage_backend {
 public:
  [[nodiscard]] opened_file open(std::string const& path, int flags, unsigned mode) override;
  [[nodiscard]] int status(std::string const& path, struct ::stat& out) noexcept override;
  [[nodiscard]] int unlink(std::string const& path) noexcept override;
};

}  // namespace gpufs::daemon
