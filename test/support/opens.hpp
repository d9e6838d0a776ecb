// Opening and closing files from a kernel, for suites that need descriptors obtained that way.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>

namespace gpufs::test {

/// Paths in GPU memory, one behind the other.
class device_paths {
 public:
  explicit device_paths(std::vector<std::string> const& paths)
      : offsets_(paths.size()), text_(length_of(paths)) {
    std::vector<std::uint64_t> offsets;
    std::string all;
    for (auto const& p : paths) {
      offsets.push_back(all.size());
      all += p;
      all += '\0';
    }
    offsets_.copy_from_host(offsets.data(), offsets.size());
    text_.copy_from_host(all.data(), all.size());
  }
  [[nodiscard]] std::uint64_t const* offsets() const { return offsets_.data(); }
  [[nodiscard]] char const* text() const { return text_.data(); }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(offsets_.size()); }

 private:
  static std::uint64_t length_of(std::vector<std::string> const& paths) {
    std::uint64_t n = 0;
    for (auto const& p : paths) n += p.size() + 1;
    return n;
  }
  buffer<std::uint64_t> offsets_;
  buffer<char> text_;
};

/// What gopen returns for each path, opened by `blocks` blocks in turn.
std::vector<int> open_in_kernel(filesystem& fs, std::vector<std::string> const& paths,
                                int flags = O_RDONLY, unsigned blocks = 4);
int open_in_kernel(filesystem& fs, std::string const& path, int flags = O_RDONLY);

/// The same, again if it takes longer than `rpc_timeout`: for short ones, on slow machines.
int open_patiently(filesystem& fs, std::string const& path, int flags = O_RDONLY);

/// What gclose returns for each descriptor.
std::vector<int> close_in_kernel(filesystem& fs, std::vector<int> const& fds, unsigned blocks = 4);

}  // namespace gpufs::test
