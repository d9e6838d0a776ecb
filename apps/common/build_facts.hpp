// What was built, and what it runs on.
#pragma once

#include <string>

namespace gpufs::apps {

/// The commit of the sources, "3f2a9c1d04be", with "-modified" if files were changed since.
/// "unknown": built from sources without a repository.
[[nodiscard]] std::string commit();

/// "0.1.0 (commit 3f2a9c1d04be, emulated device)".
[[nodiscard]] std::string version_text();

/// The processor, as Linux names it. "unknown" if it does not.
[[nodiscard]] std::string cpu_name();

/// "Linux 6.1.0".
[[nodiscard]] std::string kernel_name();

}  // namespace gpufs::apps
