# The emulated variant of gpufs and its programs on Debian 12. No GPU is needed:
#   docker build -t gpufs . && docker run --rm gpufs gpufs info
# With a CUDA image as BASE, such as nvidia/cuda:13.0.1-devel-ubuntu24.04, the CUDA variant is built:
#   docker build --build-arg BASE=... -t gpufs-cuda . && docker run --rm --gpus all gpufs-cuda gpufs info
# Docker's default seccomp profile refuses io_uring: gpufs reads with pread threads then, and `gpufs
# info` says so. `--security-opt seccomp=PROFILE` with io_uring_* allowed changes that.
# scripts/test_dockerfile.sh runs the steps in a clean root.
ARG BASE=debian:12
FROM ${BASE}
COPY . /src
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends make
RUN scripts/setup.sh
RUN make install PREFIX=/usr/local CONFIGURE_FLAGS=-DGPUFS_BUILD_TESTS=OFF
WORKDIR /
CMD ["gpufs", "info"]
