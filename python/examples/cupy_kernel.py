"""A kernel of CuPy that reads a file: sums the floats of FILE. Needs a GPU and the CUDA package.

  python cupy_kernel.py FILE
"""
import os
import sys

import cupy
import numpy

import gpufs
import gpufs.cupy

CODE = """
#include <gpufs/io.hpp>

extern "C" __global__ void __launch_bounds__(256)
sum(gpufs::fs_ref const* fs, int fd, long long chunks, double* total, int* error) {
  __shared__ float chunk[1024];
  gpufs::io_context io(*fs, cooperative_groups::this_thread_block());
  double mine = 0;
  for (long long i = blockIdx.x; i < chunks; i += gridDim.x) {
    auto const got = gpufs::gread(io, fd, chunk, sizeof(chunk), i * (long long)sizeof(chunk));
    if (got < 0) { atomicMin(error, int(got)); break; }
    for (int k = threadIdx.x; k < got / 4; k += blockDim.x) mine += chunk[k];
    __syncthreads();
  }
  atomicAdd(total, mine);
}
"""

path = sys.argv[1]
with gpufs.Filesystem() as fs, fs.open(path) as file:
    kernel = gpufs.cupy.raw_module(CODE).get_function("sum")
    total, error = cupy.zeros(1), cupy.zeros(1, cupy.int32)
    kernel((64,), (256,), (numpy.uint64(fs.ref_address), numpy.int32(file.fd),
                           numpy.int64(-(-file.size // 4096)), total, error))
    if int(error[0]) != 0:
        sys.exit(f"{path}: {os.strerror(-int(error[0]))}")
    want = numpy.fromfile(path, numpy.float32).sum(dtype=numpy.float64)
    print(f"kernel {float(total[0]):.6g}, numpy {want:.6g}")
    sys.exit(not numpy.isclose(float(total[0]), want))
