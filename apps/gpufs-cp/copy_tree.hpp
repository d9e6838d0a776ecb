// The host's part of a copy: folders, links, permissions, and the list of files whose bytes the
// kernel copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace gpufs::apps {

struct copied_file {
  std::string from;
  std::string part;  ///< where its bytes go first: an empty file beside the target
  std::string to;
  std::uint64_t bytes = 0;
  mode_t mode = 0;
};

/// A second name of a copied file.
struct copied_name {
  std::size_t first;  ///< the file, in copy_plan::files
  std::string to;
};

struct copied_link {
  std::string leads_to, to;
};

struct copied_folder {
  std::string path;
  mode_t mode = 0;
};

/// path, what is wrong with it
using copy_errors = std::vector<std::pair<std::string, std::string>>;

struct copy_plan {
  std::string folder;  ///< where the copy's own name is
  std::vector<copied_file> files;
  std::vector<copied_name> names;
  std::vector<copied_link> links;
  std::vector<copied_folder> folders;
  copy_errors errors;
  std::mutex mutex;        ///< held while files of the copy's own names come and go
  bool abandoned = false;  ///< guarded by it: then no more come, and no target is replaced
};

/// Makes the folders of `source` at `target`, and an empty file beside each target file. Files and
/// links that are there stay as they are until finish_copy(). As with `cp -a`, an existing
/// folder `target` gets `source` below it; symbolic links are copied as they are, wherever they
/// lead from their new place, and a file with several names in the tree has them in the copy.
/// Errors are: devices, FIFOs and sockets; targets that are something else than their source
/// (symbolic links to folders are not followed); files that have bytes, but no size, as those of
/// /proc. `plan` is empty before. Another thread may abandon it meanwhile.
void prepare_copy(std::string const& source, std::string const& target, copy_plan& plan);

/// Sets the permissions of a part to those of its source, without set-user-id, set-group-id and
/// sticky bits, and makes it durable. Returns 0 or -errno. Any thread may call.
[[nodiscard]] std::int32_t make_part_durable(copied_file const& file) noexcept;

/// Renames each file with result 0 to its target; other names of the old target keep the old file.
/// Such files are durable. Drops the bytes of the other files. Then makes the second names of
/// files that have their first, and the symbolic links. Sets the permissions of folders as those of
/// files, and makes all names durable. Returns the failures. Another thread may abandon the plan
/// meanwhile.
[[nodiscard]] copy_errors finish_copy(copy_plan& plan, std::vector<std::int32_t> const& results);

/// Drops the bytes of all files that are not renamed to their targets. After it no target is
/// replaced. Any thread may call; it is not async-signal-safe.
void abandon_copy(copy_plan& plan) noexcept;

}  // namespace gpufs::apps
