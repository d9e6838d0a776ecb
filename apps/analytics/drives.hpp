// Modelled NVMe drives between kernels and a program's input files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps::analytics {

/// Drives that each have all bytes of a file. Results are those of modelled drives.
struct drive_set {
  unsigned count = 0;  ///< 0: files are read as such
  std::string model;   ///< optane, pm1735 or 980pro
};

/// What --drive takes.
[[nodiscard]] std::vector<std::string> drive_models();

}  // namespace gpufs::apps::analytics
