// The stages of device calls that are not templates, for the emulated device. Sources of kernels
// call them here (GPUFS_LIBRARY_STAGE).
#define GPUFS_DEFINE_STAGES

#include <gpufs/gpufs.hpp>
