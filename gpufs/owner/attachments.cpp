// Block files of a filesystem.
#include <gpufs/filesystem.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/nvme.hpp>
#include <gpufs/owner/device_drives.hpp>
#include <gpufs/owner/filesystem_state.hpp>
#include <gpufs/owner/nvme_members.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <sys/stat.h>

namespace gpufs {

namespace {

owner::kernel_side kernel_side_of(owner::endpoint const& device,
                                  owner::device_drives::memory_list const& keep) {
  return {.channels = device.ref().link.shared.channels,
          .memory = owner::pinned_memory(keep),
          .reaches_registers = current_device().kind == "emulated"};
}

void refuse_taken(daemon::attached_files const& all, std::string const& name) {
  if (all.find(name) != nullptr)
    throw std::invalid_argument(
        fmt::format("nvme:{}: is attached already, detach it or use another name", name));
}

}  // namespace

// Kernels read the file by themselves if they can. It works without.
void filesystem::state::serve_block_file(std::string const& name,
                                         std::shared_ptr<owner::block_file> const& file,
                                         owner::device_drives::memory_list const& keep) {
  std::lock_guard const lock{kernel_drives.mutex};
  refuse_taken(*attached, name);
  try {
    if (file->kind().unreachable_doorbells)
      throw std::runtime_error{
          "a GPU does not reach the doorbells of a drive behind vfio-pci, set relay_doorbells"};
    if (kernel_drives.all.size() == rpc::most_backings)
      throw std::runtime_error{fmt::format(
          "{} block files were attached to this filesystem, and kernels know no more of "
          "it, also if they are detached; attach this one to another filesystem",
          rpc::most_backings)};
    auto const number = std::uint8_t(kernel_drives.all.size() + 1);
    owner::device_drives::place const at{number, file->kind().relays_doorbells};
    kernel_drives.all.push_back(
        std::make_shared<owner::device_drives>(device.ref(), file->volume(), at, keep));
    file->read_by_kernels(kernel_drives.all.back(), number);
  } catch (std::exception const& e) {
    file->not_by_kernels(e.what());
  }
  static_cast<void>(attached->attach(name, file));  // the lock keeps the name free
}

void filesystem::attach(std::string const& name, nvme::software_options const& options) {
  refuse_taken(*state_->attached, name);  // before its members: those are in use
  shared::device_scope const here(state_->device_number);
  auto const keep = std::make_shared<owner::kept_memory>(state_->kernel_drives.pinned);
  state_->serve_block_file(
      name, owner::make_block_file(name, options, settings(), kernel_side_of(state_->device, keep)),
      keep);
}

void filesystem::attach(std::string const& name, nvme::vfio_options const& options) {
  refuse_taken(*state_->attached, name);  // before its members: those are in use
  shared::device_scope const here(state_->device_number);
  auto const keep = std::make_shared<owner::kept_memory>(state_->kernel_drives.pinned);
  state_->serve_block_file(
      name, owner::make_block_file(name, options, settings(), kernel_side_of(state_->device, keep)),
      keep);
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
