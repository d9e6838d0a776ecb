// Owns what device code knows of block files: the table of backings, and the commands of channels.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/layout.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::owner {

// ring/block_requests.hpp loads each record as two words of 8 bytes. The asserts stand in host code
// since NVRTC's offsetof is no constant expression.
static_assert(offsetof(handle::block_command, sequence) == 8 &&
              offsetof(handle::block_command, bytes) == 12);
static_assert(offsetof(handle::block_entry, failed) == 8);

/// See gpufs/owner/subsystems.hpp.
class block_files_owner {
 public:
  block_files_owner(config const&, layout const& l)
      : table_(pinned<handle::block_entry>(std::uint64_t{rpc::most_backings} * handle::entry_places,
                                           "the table of block files", lower_staging)),
        commands_(on_device<handle::block_command>(l.channels, "commands of block files",
                                                   lower_staging)) {}

  void fill(fs_ref& r) const {
    r.blocks.table = table_.data();
    r.blocks.commands = commands_.data();
  }
  [[nodiscard]] std::uint64_t metadata_bytes() const { return bytes_of(commands_); }
  [[nodiscard]] std::uint64_t pinned_bytes() const { return bytes_of(table_); }

 private:
  pinned_buffer<handle::block_entry> table_;
  buffer<handle::block_command> commands_;
};

}  // namespace gpufs::owner
