// The start of a filesystem out of settings that Python gives.
#pragma once

#include <nanobind/nanobind.h>
#include <python/src/core.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gpufs::python {

/// Makes a core of pairs of a setting and its value. `overrides`: as Filesystem in Python. The
/// caller holds the GIL. Throws config_error naming the setting, and as core's constructor.
[[nodiscard]] std::shared_ptr<core> make_core(
    std::vector<std::pair<nanobind::bytes, nanobind::bytes>> const& given, bool overrides,
    std::optional<int> device);

}  // namespace gpufs::python
