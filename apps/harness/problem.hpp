// Which instance of an application is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpufs::apps {

/// smoke: under a second on the emulated device. medium: tens of MiB. paper: the sizes of the GPUfs
/// readahead paper, Table 1.
enum class size_class { smoke, medium, paper };

struct problem {
  size_class size = size_class::smoke;
  /// inputs that tell every element from every other; else the suite's own formula
  bool random = true;
  std::uint64_t seed = 42;  ///< of the random inputs
  /// the application's own options, by name; all are there
  std::map<std::string, std::string> extras;
  std::string input;  ///< --input: a real file in place of the generated one; empty if none

  /// The one of the three that belongs to the size.
  template <class T>
  [[nodiscard]] T pick(T smoke, T medium, T paper) const {
    return size == size_class::smoke ? smoke : size == size_class::medium ? medium : paper;
  }
};

}  // namespace gpufs::apps
