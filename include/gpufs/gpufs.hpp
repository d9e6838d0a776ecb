// The file system: host owner, settings, statistics, device layer. Device code gets the file API,
// too. NVRTC gets the settings' structs, the device layer and the file API. Shared memory has a
// header of its own: gpufs/mapping.hpp.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/device.hpp>

#if !defined(__CUDACC_RTC__)
#include <gpufs/filesystem.hpp>
#include <gpufs/nvme.hpp>
#include <gpufs/statistics.hpp>
#include <gpufs/version.hpp>
#endif

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
#include <gpufs/array.hpp>
#include <gpufs/async.hpp>
#include <gpufs/held_ptr.hpp>
#include <gpufs/held_writer.hpp>
#include <gpufs/io.hpp>
#endif
