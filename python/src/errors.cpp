#include <gpufs/device.hpp>
#include <gpufs/settings.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <nanobind/stl/string.h>
#include <python/src/errors.hpp>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>

namespace gpufs::python {

namespace {

namespace nb = nanobind;

void set_os_error(std::int64_t error, std::string const& what, std::string const& name) {
  nb::str const text = text_of_bytes(what), path = text_of_bytes(name);
  nb::object const arguments = name.empty() ? nb::make_tuple(std::llabs(error), text)
                                            : nb::make_tuple(std::llabs(error), text, path);
  // Python makes FileNotFoundError and the like out of the errno.
  PyErr_SetObject(PyExc_OSError, arguments.ptr());
}

// The types of Python for config_error and device_error. They live as long as the module.
PyObject* config_type = nullptr;
PyObject* device_type = nullptr;

// what() may have any bytes: that of a path, or of a value that was given.
void set_error(PyObject* type, std::exception const& error) {
  PyErr_SetObject(type, text_of_bytes(error.what()).ptr());
}

}  // namespace

nb::str text_of_bytes(std::string_view bytes) {
  auto const made = nb::steal<nb::str>(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

void throw_os_error(std::int64_t error, std::string const& what, std::string const& name) {
  set_os_error(error, what, name);
  throw nb::python_error();
}

void throw_file_error(std::int64_t error, int fd, std::string const& name, char const* use,
                      std::string const& place) {
  int const code = int(std::llabs(error));
  std::string text = std::strerror(code);
  if (!place.empty()) text += ": " + place;
  if (name.empty()) text += ": descriptor " + std::to_string(fd);
  if (code == EBADF)
    text += use != nullptr ? std::string(": must be open for ") + use : ": must be open";
  if (code == EOPNOTSUPP && use != nullptr && use == std::string_view("writing"))
    text += ": opened to append: use write() of its File, or a kernel";
  throw_os_error(code, text, name);
}

void throw_index_error(std::string const& what) {
  PyErr_SetString(PyExc_IndexError, what.c_str());
  throw nb::python_error();
}

void register_errors(nb::module_& m) {
  config_type = nb::exception<config_error>(m, "ConfigError", PyExc_ValueError).ptr();
  device_type = nb::exception<device_error>(m, "DeviceError", PyExc_RuntimeError).ptr();
  // The last one is asked first.
  nb::register_exception_translator([](std::exception_ptr const& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (shared_memory_error const& error) {
      set_os_error(error.code(), error.what(), {});
    } catch (std::system_error const& error) {
      set_os_error(error.code().value(), error.what(), {});
    } catch (config_error const& error) {
      set_error(config_type, error);
    } catch (device_error const& error) {
      set_error(device_type, error);
    }
  });
}

}  // namespace gpufs::python
