// Marks functions in plain headers that host code and device code call.
#pragma once

#if defined(__CUDACC__)
#define GPUFS_HOST_DEVICE __host__ __device__
#else
#define GPUFS_HOST_DEVICE
#endif
