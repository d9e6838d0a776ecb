// The profile of an address space, and the file that it comes from.
#pragma once

#include <gpufs/mapping/launch_profile.hpp>

#include <functional>
#include <set>
#include <string>

namespace gpufs::shared {

/// Protected by the mutex of the address space.
struct profile_keeper {
  launch_profile known = {};
  /// Adds to `known` what the file has, and writes all to the file. Returns why not, or nothing.
  /// Null: there is no file.
  std::function<std::string(launch_profile& known)> keep = nullptr;
  std::set<std::string> told = {};  ///< notes about it
};

}  // namespace gpufs::shared
