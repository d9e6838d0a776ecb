# gpufs_add_ports(): the file-input applications. Each apps/ports/NAME.cu becomes the program
# NAME. The library gpufs_ports holds all of them and the harness. Tests and `gpufs bench apps`
# link it.
function(gpufs_add_ports)
  # Static: programs are copied to machines with other system libraries.
  find_library(GPUFS_ZLIB_LIBRARY NAMES libz.a)
  find_library(GPUFS_PNG_LIBRARY NAMES libpng16.a)
  if(NOT GPUFS_ZLIB_LIBRARY OR NOT GPUFS_PNG_LIBRARY)
    message(FATAL_ERROR "libpng16.a or libz.a not found: install libpng-dev and zlib1g-dev")
  endif()
  gpufs_find_headers(png png.h libpng-dev)
  add_library(gpufs_png INTERFACE)
  target_link_libraries(gpufs_png INTERFACE
    gpufs::png ${GPUFS_PNG_LIBRARY} ${GPUFS_ZLIB_LIBRARY} m)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    apps/harness/*.cpp apps/harness/*.cu apps/ports/*.cpp apps/ports/*.cu)
  list(FILTER sources EXCLUDE REGEX "/port_main\\.cpp$")
  add_library(gpufs_ports STATIC)
  gpufs_add_sources(gpufs_ports ${sources})
  target_link_libraries(gpufs_ports PUBLIC gpufs_apps_common PRIVATE gpufs_warnings gpufs_png)
  file(GLOB ports CONFIGURE_DEPENDS apps/ports/*.cu)
  foreach(source IN LISTS ports)
    cmake_path(GET source STEM name)
    add_executable(port_${name} apps/ports/port_main.cpp)
    target_compile_definitions(port_${name} PRIVATE GPUFS_PORT=port_${name})
    gpufs_set_up_program(port_${name})
    target_link_libraries(port_${name} PRIVATE gpufs_ports)
    set_target_properties(port_${name} PROPERTIES OUTPUT_NAME ${name})
    add_dependencies(programs port_${name})
    if(GPUFS_INSTALL)
      install(TARGETS port_${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endforeach()
endfunction()

# gpufs_add_analytics(): the library gpufs_analytics has all of the analytics programs but main().
function(gpufs_add_analytics)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS apps/analytics/*.cpp apps/analytics/*.cu)
  add_library(gpufs_analytics STATIC)
  gpufs_add_sources(gpufs_analytics ${sources})
  target_link_libraries(gpufs_analytics PUBLIC gpufs_ports PRIVATE gpufs_warnings)
endfunction()
