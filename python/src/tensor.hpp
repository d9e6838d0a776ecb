// Memory of Python's tensors: objects with the buffer protocol or with DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gpufs::python {

enum class element_kind { other, int64, uint64 };

/// The memory of a tensor whose elements lie one after the other. Keeps the tensor.
/// It is made and destroyed with the GIL held.
class tensor {
 public:
  /// `name`: of the argument, for errors.
  /// Throws TypeError: no tensor, or one of Python objects. Throws ValueError: elements with gaps,
  /// or of another order than C's; memory that is only read, if `written`; memory of a device that
  /// is not supported.
  tensor(nanobind::handle object, bool written, std::string const& name);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] element_kind kind() const { return kind_; }
  /// Memory that the host cannot reach.
  [[nodiscard]] bool on_device() const { return on_device_; }
  /// Kernels on CUDA reach it: device memory, managed memory, pinned memory.
  [[nodiscard]] bool in_reach() const { return in_reach_; }
  [[nodiscard]] int device() const { return device_; }

 private:
  struct buffer_view;
  /// False: the object gives no buffer, and Python's error says why.
  bool take_buffer(nanobind::handle object, bool written, std::string const& name);
  void take_dlpack(nanobind::handle object, bool written, std::string const& name);

  std::shared_ptr<void> keeps_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  element_kind kind_ = element_kind::other;
  bool on_device_ = false, in_reach_ = false;
  int device_ = 0;
};

}  // namespace gpufs::python
