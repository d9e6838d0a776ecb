// The version of gpufs. It stands here and nowhere else: the build reads these lines.
#pragma once

/// The version is MAJOR.MINOR.PATCH.
#define GPUFS_VERSION_MAJOR 0
#define GPUFS_VERSION_MINOR 1
#define GPUFS_VERSION_PATCH 0

/// "0.1.0"
#define GPUFS_VERSION_STRING "0.1.0"

/// One number to compare: 1000000 for each major, 1000 for each minor version, and the patch.
#define GPUFS_VERSION \
  (GPUFS_VERSION_MAJOR * 1000000 + GPUFS_VERSION_MINOR * 1000 + GPUFS_VERSION_PATCH)
