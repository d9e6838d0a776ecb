// File mappings and shared memory for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace gpufs::python {

/// Makes the classes SharedMemory, Mapping and Launch.
void register_mapping(nanobind::module_& m);

}  // namespace gpufs::python
