#include <nanobind/ndarray.h>
#include <python/src/tensor.hpp>

#include <cstring>
#include <string_view>

namespace gpufs::python {

namespace nb = nanobind;

namespace {

element_kind kind_of_format(char const* format, Py_ssize_t item_bytes) {
  if (format == nullptr || item_bytes != 8) return element_kind::other;
  std::string_view text = format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text == "q" || text == "l") return element_kind::int64;
  if (text == "Q" || text == "L") return element_kind::uint64;
  return element_kind::other;
}

template <class Array>
bool has_no_gaps(Array const& a) {
  std::int64_t step = 1;
  for (std::size_t i = a.ndim(); i-- > 0; step *= std::int64_t(a.shape(i)))
    if (a.shape(i) > 1 && a.stride(i) != step) return a.size() == 0;
  return true;
}

// Also within a structure. A field's name may have any letter.
bool has_objects(char const* format) {
  bool in_name = false;
  for (char const* c = format; c != nullptr && *c != 0; ++c) {
    if (*c == ':') in_name = !in_name;
    if (*c == 'O' && !in_name) return true;
  }
  return false;
}

std::string type_of(nb::handle object) { return nb::type_name(object.type()).c_str(); }

/// Throws ValueError, with the error of the tensor's package as its cause.
[[noreturn]] void throw_refusal(nb::handle object, bool written, std::string const& name) {
  PyErr_Clear();
  std::string text = name + ": " + type_of(object) + " gives no tensor through DLPack";
  try {
    static_cast<void>(object.attr("__dlpack__")());
  } catch (nb::python_error& error) {
    text += ": " + std::string(nb::str(error.value()).c_str());
    if (nb::hasattr(object, "view") && PyObject_CheckBuffer(object.ptr()) != 0)
      text += "; its bytes, as view(\"uint8\"), may be passed";
    nb::raise_from(error, PyExc_ValueError, "%s", text.c_str());
  }
  throw nb::value_error((text + (written ? "; it must be writable" : "")).c_str());
}

}  // namespace

struct tensor::buffer_view {
  Py_buffer view{};
  ~buffer_view() { PyBuffer_Release(&view); }
};

tensor::tensor(nb::handle object, bool written, std::string const& name) {
  bool const gives_dlpack = nb::hasattr(object, "__dlpack__");
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    if (take_buffer(object, written, name)) return;
    if (!gives_dlpack) throw nb::python_error();
    PyErr_Clear();  // memory of a device, or of elements that buffers have no letter for
  }
  if (!gives_dlpack)
    throw nb::type_error(
        (name + ": must be a tensor with the buffer protocol or DLPack, not " + type_of(object))
            .c_str());
  take_dlpack(object, written, name);
}

bool tensor::take_buffer(nb::handle object, bool written, std::string const& name) {
  auto const held = std::make_shared<buffer_view>();
  if (PyObject_GetBuffer(object.ptr(), &held->view, PyBUF_FULL_RO) != 0) return false;
  Py_buffer const& view = held->view;
  if (has_objects(view.format))
    throw nb::type_error((name + ": its elements must not be Python objects").c_str());
  if (PyBuffer_IsContiguous(&view, 'C') == 0)
    throw nb::value_error(
        (name + ": its elements must lie one after the other, in C order").c_str());
  if (written && view.readonly != 0) throw nb::value_error((name + ": must be writable").c_str());
  data_ = static_cast<std::byte*>(view.buf);
  bytes_ = std::uint64_t(view.len);
  kind_ = kind_of_format(view.format, view.itemsize);
  keeps_ = held;
  return true;
}

void tensor::take_dlpack(nb::handle object, bool written, std::string const& name) {
  using any = nb::ndarray<nb::ro>;
  auto const held = std::make_shared<any>();
  nb::ndarray<> writable;
  bool const taken = written ? nb::try_cast(object, writable) : nb::try_cast(object, *held);
  if (!taken) throw_refusal(object, written, name);
  auto const look = [&](auto const& a, std::shared_ptr<void> keeps) {
    if (!has_no_gaps(a))
      throw nb::value_error(
          (name + ": its elements must lie one after the other, in C order").c_str());
    data_ = static_cast<std::byte*>(const_cast<void*>(static_cast<void const*>(a.data())));
    bytes_ = a.nbytes();
    if (a.dtype().bits == 64 && a.dtype().lanes == 1)
      kind_ = a.dtype().code == std::uint8_t(nb::dlpack::dtype_code::Int)    ? element_kind::int64
              : a.dtype().code == std::uint8_t(nb::dlpack::dtype_code::UInt) ? element_kind::uint64
                                                                             : element_kind::other;
    device_ = a.device_id();
    int const type = a.device_type();
    on_device_ = type == nb::device::cuda::value || type == nb::device::cuda_managed::value;
    in_reach_ = on_device_ || type == nb::device::cuda_host::value;
    if (!in_reach_ && type != nb::device::cpu::value)
      throw nb::value_error((name +
                             ": must be in host memory or on a CUDA device, not on device type " +
                             std::to_string(type))
                                .c_str());
    keeps_ = std::move(keeps);
  };
  if (written)
    look(writable, std::make_shared<nb::ndarray<>>(writable));
  else
    look(*held, held);
}

}  // namespace gpufs::python
