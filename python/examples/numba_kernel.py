"""A kernel of numba-cuda that reads a file: the blocks copy FILE to a device array. Needs a GPU and
the CUDA package.

  python numba_kernel.py FILE
"""
import os
import sys

import numpy
from numba import cuda

import gpufs
from gpufs.numba import address, gread

CHUNK = 65536


@cuda.jit
def copy(fs, fd, to, size, failed):
    offset = cuda.blockIdx.x * CHUNK
    while offset < size:
        got = gread(fs, fd, to + offset, min(CHUNK, size - offset), offset)
        if got < 0 and cuda.threadIdx.x == 0:
            failed[0] = got
        offset += cuda.gridDim.x * CHUNK


path = sys.argv[1]
with gpufs.Filesystem() as fs, fs.open(path) as file:
    size = file.size
    to = cuda.device_array(size, numpy.uint8)
    failed = cuda.to_device(numpy.zeros(1, numpy.int64))
    copy[64, 256](numpy.uint64(fs.ref_address), numpy.int32(file.fd), numpy.uint64(address(to)),
                  numpy.int64(size), failed)
    error = int(failed.copy_to_host()[0])
    if error != 0:
        sys.exit(f"{path}: {os.strerror(-error)}")
    same = numpy.array_equal(to.copy_to_host(), numpy.fromfile(path, numpy.uint8))
    print(f"{size} bytes, {'equal' if same else 'DIFFERENT'}")
    sys.exit(not same)
