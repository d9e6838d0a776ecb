// Functions of plain headers that device code calls, too, where there is a device compiler.
#pragma once

#if defined(__CUDACC__)
#define GPUFS_HOST_DEVICE __host__ __device__
#else
#define GPUFS_HOST_DEVICE
#endif
