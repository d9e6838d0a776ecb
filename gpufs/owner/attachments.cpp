// Block files of a filesystem.
#include <gpufs/filesystem.hpp>
#include <gpufs/nvme.hpp>
#include <gpufs/owner/filesystem_state.hpp>
#include <gpufs/owner/nvme_members.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>

#include <sys/stat.h>

namespace gpufs {

namespace {

void serve(daemon::attached_files& files, std::string const& name,
           std::shared_ptr<owner::block_file const> file) {
  if (files.attach(name, std::move(file)) != 0)
    throw std::invalid_argument(
        fmt::format("nvme:{}: is attached already, detach it or use another name", name));
}

}  // namespace

void filesystem::attach(std::string const& name, nvme::software_options const& options) {
  serve(*state_->attached, name, owner::make_block_file(name, options, settings()));
}

void filesystem::attach(std::string const& name, nvme::vfio_options const& options) {
  serve(*state_->attached, name, owner::make_block_file(name, options, settings()));
}

int filesystem::detach(std::string const& name) {
  auto const file = state_->attached->find(name);
  if (file == nullptr) return -ENOENT;
  struct ::stat status {};
  if (int const error = file->status(status); error != 0) return error;
  return state_->attached->detach(
      name, [&] { return state_->server->files().opens(status.st_dev, status.st_ino) != 0; },
      std::chrono::milliseconds(settings().rpc_timeout_ms));
}

nvme::attachment_statistics filesystem::attachment_stats(std::string const& name) const {
  auto const file = state_->attached->find(name);
  if (file == nullptr) throw std::invalid_argument(fmt::format("nvme:{}: is not attached", name));
  // Nothing else is attached.
  return static_cast<owner::block_file const&>(*file).statistics();
}

}  // namespace gpufs
