#include <python/src/errors.hpp>
#include <python/src/gil.hpp>
#include <python/src/transfer_check.hpp>

#include <limits>
#include <string>

namespace gpufs::python {

namespace nb = nanobind;

std::uint64_t const* numbers_of(tensor const& offsets) {
  return reinterpret_cast<std::uint64_t const*>(offsets.data());
}

std::uint64_t records_in(tensor const& offsets) {
  if (offsets.kind() == element_kind::other)
    throw nb::type_error("offsets: elements must be int64 or uint64");
  return offsets.bytes() / sizeof(std::uint64_t);
}

std::string place_of(std::uint64_t record, std::uint64_t offset, element_kind kind) {
  return "record " + std::to_string(record) + " at offset " +
         (kind == element_kind::int64 ? std::to_string(static_cast<std::int64_t>(offset))
                                      : std::to_string(offset));
}

std::uint64_t check_records(filesystem& files, transfer_request const& of, tensor const& offsets,
                            std::string const& name) {
  file_status status{};
  int error;
  std::uint64_t const count = offsets.bytes() / sizeof(std::uint64_t);
  std::uint64_t end = 0, bits = 0, i = 0, wrong = 0;
  {
    // A touch of the offsets may wait for a kernel whose declaration another thread ends, and the
    // size of a file that kernels write for the device.
    without_gil const release;
    error = files.stat(of.fd, status);
    end = of.writes ? most_file_bytes : status.size;
    std::uint64_t const* const all = numbers_of(offsets);
    for (; error == 0 && i < count; ++i) {
      wrong = all[i];
      if (wrong > end || of.size > end - wrong) break;
      bits |= wrong;
    }
  }
  if (error != 0) throw_file_error(error, of.fd, name);
  if (i != count)
    throw_index_error(place_of(i, wrong, offsets.kind()) + ", " + std::to_string(of.size) +
                      " bytes: must lie within the " + std::to_string(end) + " bytes " +
                      (of.writes ? "that a file may have" : "of the file"));
  return bits;
}

void transfer::check() {
  count_ = records_in(*offsets_);
  if (request_.size == 0) throw nb::value_error("size: must be at least 1 byte");
  bool const fits =
      count_ <= most_records &&
      (count_ == 0 || request_.size <= std::numeric_limits<std::int64_t>::max() / count_);
  std::string const name = request_.writes ? "data" : "out";
  if (!fits || data_->bytes() != count_ * request_.size)
    throw nb::value_error((name + ": has " + std::to_string(data_->bytes()) + " bytes, must have " +
                           std::to_string(count_) + " records x " + std::to_string(request_.size) +
                           " bytes")
                              .c_str());
  for (auto const* t : {&*offsets_, &*data_}) {
    if (!t->on_device() || (!host_is_in_reach && t->device() == core_->device())) continue;
    throw nb::value_error(
        ((t == &*offsets_ ? "offsets" : name) + ": is on CUDA device " +
         std::to_string(t->device()) +
         (host_is_in_reach ? ", but this filesystem is on the emulated device: use host memory"
                           : ", must be on device " + std::to_string(core_->device()) +
                                 " of the filesystem, or in host memory"))
            .c_str());
  }
  if (request_.stream.has_value() && host_is_in_reach)
    throw nb::value_error("stream: the emulated device has none that others know; must be None");
  if (!offsets_->on_device() && !request_.unchecked)
    word_ = word_of(check_records(**use_, request_, *offsets_, name_) | request_.size |
                    reinterpret_cast<std::uintptr_t>(data_->data()));
}

}  // namespace gpufs::python
