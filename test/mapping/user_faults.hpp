// Whether suites can have userfaultfd.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/user_fault_file.hpp>

#include <doctest/doctest.h>

namespace gpufs::test {

/// Says why, where the system has none for this process.
inline bool has_user_faults() {
  static bool const is_there = [] {
    try {
      shared::user_fault_file const file;
      return true;
    } catch (device_error const& e) {
      MESSAGE("skipped: " << e.what());
      return false;
    }
  }();
  return is_there;
}

}  // namespace gpufs::test
