// Ordinary files, for tests that change what some calls of them do.
#pragma once

#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/backend/storage_backend.hpp>

#include <memory>
#include <string>
#include <utility>

#include <sys/stat.h>

namespace gpufs::test {

struct forwarding_storage : daemon::storage_backend {
  daemon::host_storage below;

  /// What an open of this file gives: the file, or another one that passes calls on to it.
  virtual std::shared_ptr<daemon::stored_file const> wrap(
      std::shared_ptr<daemon::stored_file const> file) {
    return file;
  }

  daemon::opened_file open(std::string const& path, int flags, unsigned mode) override {
    auto opened = below.open(path, flags, mode);
    if (opened.error == 0) opened.file = wrap(std::move(opened.file));
    return opened;
  }
  int status(std::string const& path, struct ::stat& out) noexcept override {
    return below.status(path, out);
  }
  int unlink(std::string const& path) noexcept override { return below.unlink(path); }
};

}  // namespace gpufs::test
