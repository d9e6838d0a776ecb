# The library gpufs_nvme: the control plane of NVMe controllers, and the software controller. The
# two folders share formats only. Where they meet is nvme-host/software.cpp.
file(GLOB nvme_sources CONFIGURE_DEPENDS nvme-host/*.cpp nvme-controller/*.cpp)
add_library(gpufs_nvme STATIC ${nvme_sources})
target_link_libraries(gpufs_nvme PUBLIC gpufs PRIVATE gpufs_warnings)

# The cases of the conformance suite. Each program that links them names a controller.
file(GLOB nvme_conformance_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/test/nvme/conformance_*.cpp)
