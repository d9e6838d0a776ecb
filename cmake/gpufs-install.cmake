# cmake --install: library, headers, and the package that find_package(gpufs) finds. One prefix
# holds one variant.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/gpufs DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpufs
  FILES_MATCHING PATTERN *.hpp PATTERN *.cuh PATTERN *.h)
install(DIRECTORY gpufs DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpufs
  FILES_MATCHING PATTERN *.hpp PATTERN *.cuh
  PATTERN ${other_device} EXCLUDE
  REGEX "/gpufs/(owner|mapping)(/|$)" EXCLUDE)  # the library's own
# What NVRTC compiles kernels with, as it has no headers of the host.
install(DIRECTORY gpufs/nvrtc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpufs/gpufs)
install(DIRECTORY prefetcher DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpufs
  FILES_MATCHING PATTERN *.hpp PATTERN *.cuh)

set(installed_targets gpufs)
if(TARGET gpufs_cli)
  list(APPEND installed_targets gpufs_cli)
endif()
install(TARGETS ${installed_targets} EXPORT gpufs-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpufs)
install(EXPORT gpufs-targets NAMESPACE gpufs:: DESTINATION ${package_dir}
  FILE gpufs-exported-targets.cmake)
configure_package_config_file(
  cmake/gpufs-config.cmake.in ${PROJECT_BINARY_DIR}/gpufs-config.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/gpufs-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/gpufs-config.cmake ${PROJECT_BINARY_DIR}/gpufs-config-version.cmake
  cmake/gpufs-dependencies.cmake cmake/gpufs-kernel-sources.cmake cmake/gpufs-wrapping.cmake
  DESTINATION ${package_dir})

# For pkg-config. The prefix is found from where gpufs.pc lies: all may be moved together. Folders
# that are named in full stay where they are.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(gpufs_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH gpufs_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" gpufs_pc_prefix "\${pcfiledir}/${gpufs_pc_prefix}")
endif()
foreach(folder LIBDIR INCLUDEDIR)
  set(gpufs_pc_${folder} "${CMAKE_INSTALL_${folder}}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    string(PREPEND gpufs_pc_${folder} "\${prefix}/")
  endif()
endforeach()
if(GPUFS_DEVICE STREQUAL "emulated")
  set(gpufs_pc_flags " -DGPUFS_EMULATED=1")
  set(gpufs_pc_libraries " -lboost_context")
else()
  set(gpufs_pc_flags "")
  set(gpufs_pc_libraries " -lcudart_static -ldl -lrt")
endif()
configure_file(cmake/gpufs.pc.in ${PROJECT_BINARY_DIR}/gpufs.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpufs.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(NOT PROJECT_IS_TOP_LEVEL)  # a project above may have made it its own
  set(CMAKE_INSTALL_DOCDIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/gpufs)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
