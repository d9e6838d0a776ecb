// Opens files for shared_memory::map().
#pragma once

#include <gpufs/mapping/file_side.hpp>
#include <gpufs/mapping_options.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace gpufs::owner {

/// Opens, makes and grows a file as the options say. `name`: for messages. Throws as
/// shared_memory::map(). The file keeps other writable objects of this process away as long as it
/// lives.
[[nodiscard]] shared::file_to_map open_to_map(std::string const& path, std::string const& name,
                                              map_options const& options);

/// Opens the file of an object once more, for another use. Throws likewise.
[[nodiscard]] shared::file_to_map open_to_remap(shared::file_in_use const& now, std::uint64_t bytes,
                                                access use);

/// A new file in a folder, which has no name and goes when it is not used any more. Throws
/// config_error naming spill_dir and the folder.
[[nodiscard]] std::shared_ptr<shared::backing_file const> make_spill_file(
    std::string const& folder);

}  // namespace gpufs::owner
