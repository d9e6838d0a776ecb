// Advice given by a kernel, and what a read finds afterwards.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/filesystem.hpp>

#include <test/support/reads.hpp>

#include <cstdint>
#include <string>

namespace gpufs::test {

/// What gfadvise returns to a block of `threads` threads, or to a tile of one. Checks that all of
/// them get the same.
int advise_in_kernel(fs_ref const& fs, int fd, std::int64_t offset, std::int64_t length,
                     advice what, caller_kind who = caller_kind::block, unsigned threads = 64);

/// How many pages a gread of [offset, offset + count) does not find in the cache. Checks its bytes.
std::uint64_t missing(filesystem& fs, int fd, std::string const& path, std::uint64_t offset,
                      std::uint64_t count);

}  // namespace gpufs::test
