// Files that are members of block files, and a file with the bytes that these have together.
#pragma once

#include <gpufs/nvme.hpp>

#include <test/support/files.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace gpufs::test {

struct member_shape {
  unsigned members;
  bool is_replicated;
  std::uint64_t stripe;
};
inline constexpr member_shape member_shapes[] = {
    {1, false, 4096}, {3, false, 4096}, {2, false, 16384}, {2, true, 4096}};

struct member_files {
  std::string whole;  ///< the path of the file with all bytes
  std::uint64_t size;
  nvme::software_options options;
};

inline void write_bytes(std::string const& path, std::vector<std::byte> const& what) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<char const*>(what.data()), std::streamsize(what.size()));
}

/// `size` is a multiple of the stripes of all members.
inline member_files make_members(scratch_folder const& folder, member_shape const& shape,
                                 std::uint64_t size) {
  member_files made;
  made.whole = make_file(folder, "whole", size, 11);
  made.size = size;
  made.options.how = shape.is_replicated ? nvme::layout::replicated : nvme::layout::striped;
  made.options.stripe = shape.stripe;
  made.options.threads = 1;
  auto const bytes = pread_bytes(made.whole, 0, size);
  for (unsigned i = 0; i < shape.members; ++i) {
    std::vector<std::byte> mine;
    for (std::uint64_t s = 0; s * shape.stripe < size; ++s)
      if (shape.is_replicated || s % shape.members == i)
        mine.insert(mine.end(), bytes.begin() + std::ptrdiff_t(s * shape.stripe),
                    bytes.begin() + std::ptrdiff_t((s + 1) * shape.stripe));
    made.options.members.push_back(folder / ("member-" + std::to_string(i)));
    write_bytes(made.options.members.back(), mine);
  }
  return made;
}

}  // namespace gpufs::test
