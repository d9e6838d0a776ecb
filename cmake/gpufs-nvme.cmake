# Tests of NVMe controllers.

# The cases of the conformance suite. Each program that links them names a controller.
file(GLOB nvme_conformance_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/test/nvme/conformance_*.cpp)

# nvme_qemu_test: the conformance suite, the device's queue pairs, a block file, and `gpufs bench`,
# on the controller that QEMU emulates. A guest runs the suite, so it is linked statically. It is
# added behind the other suites, whose main() it shares.
function(gpufs_add_nvme_guest)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static)
  check_cxx_source_compiles("int main() {}" GPUFS_LINKS_STATIC)
  if(NOT GPUFS_LINKS_STATIC)
    message(STATUS "nvme_qemu_test is left out: its guest is linked statically, and "
      "${CMAKE_CXX_COMPILER} finds no static C and C++ library (libc.a, libstdc++.a)")
    return()
  endif()
  add_executable(nvme_guest)
  gpufs_add_sources(nvme_guest ${nvme_conformance_sources}
    ${PROJECT_SOURCE_DIR}/test/nvme/vfio_drive.cpp
    ${PROJECT_SOURCE_DIR}/test/nvme/vfio_link_cases.cpp
    ${PROJECT_SOURCE_DIR}/test/nvme/queue_cases.cu
    ${PROJECT_SOURCE_DIR}/test/nvme/vfio_file_cases.cu)
  gpufs_set_up_program(nvme_guest)
  target_link_libraries(nvme_guest PRIVATE test_main_device test_support)
  target_link_options(nvme_guest PRIVATE -static)
  gpufs_test_or_skip(nvme_qemu_test host
    ${PROJECT_SOURCE_DIR}/test/programs/nvme_qemu.sh $<TARGET_FILE:nvme_guest>
      $<TARGET_FILE:app_gpufs> ${PROJECT_SOURCE_DIR}/build/nvme-kernel)
endfunction()
