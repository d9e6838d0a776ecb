// Exceptions of Python out of results and exceptions of gpufs.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gpufs::python {

/// Text of the system as a str: bytes that are not UTF-8 become surrogates, as in os.fsdecode().
/// The caller holds the GIL.
[[nodiscard]] nanobind::str text_of_bytes(std::string_view bytes);

/// Throws OSError, or the subclass that Python has for the errno. `error` is an errno or -errno,
/// `name` a path or empty. The caller holds the GIL.
[[noreturn]] void throw_os_error(std::int64_t error, std::string const& what,
                                 std::string const& name = {});

/// Throws OSError for a call on `fd`, whose path is `name`; empty: not known. `use` is what the
/// file must be open for: "reading", "writing" or null. `place` is a part of the call, or empty.
/// The caller holds the GIL.
[[noreturn]] void throw_file_error(std::int64_t error, int fd, std::string const& name,
                                   char const* use = nullptr, std::string const& place = {});

/// Throws IndexError. The caller holds the GIL.
[[noreturn]] void throw_index_error(std::string const& what);

/// Makes ConfigError and DeviceError in the module, and translates gpufs' exceptions.
void register_errors(nanobind::module_& m);

}  // namespace gpufs::python
