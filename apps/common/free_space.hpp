// Whether there is room for what a program is about to write.
#pragma once

#include <cstdint>
#include <string>

namespace gpufs::apps {

/// Throws usage_error that says what is needed and what is free, unless the file system of `folder`
/// has `bytes` bytes free. `from`: where the folder comes from, an option or a variable. Does
/// nothing if the file system cannot be asked.
void require_free_space(std::string const& folder, std::string const& from, std::uint64_t bytes);

}  // namespace gpufs::apps
