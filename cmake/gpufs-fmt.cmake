# gpufs::fmt, the formatting library. Of version 9, that of Debian 12 and Ubuntu 24.04, the library
# contains the functions (host-daemon/base/fmt_functions.cpp). In other versions they differ, so all
# files have them inline. They are in a namespace of their own: users may link another fmt.
gpufs_find_headers(fmt fmt/format.h libfmt-dev)
file(STRINGS ${GPUFS_fmt_INCLUDE_DIR}/fmt/core.h gpufs_fmt_version
  REGEX "define FMT_VERSION 9[0-9]+$")
if(gpufs_fmt_version)
  target_compile_definitions(gpufs::fmt INTERFACE
    "FMT_BEGIN_NAMESPACE=namespace fmt { inline namespace of_gpufs {" "FMT_END_NAMESPACE=} }")
else()
  target_compile_definitions(gpufs::fmt INTERFACE FMT_HEADER_ONLY)
endif()
