// Sizes that host and device share of what device code keeps of files.
#pragma once

namespace gpufs::file {

inline constexpr unsigned shared_file_bytes = 32;

/// Descriptors whose records are shared, so that callers which need one together load it once.
inline constexpr unsigned record_shares = 64;
inline constexpr unsigned record_share_bytes = 64;

}  // namespace gpufs::file
