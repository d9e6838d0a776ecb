// The arrays of an application: inputs as its files have them, outputs as it declares them; on the
// device and on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps {

enum class element { f32, i32, u8, i16 };

[[nodiscard]] constexpr std::uint64_t size_of(element e) {
  return e == element::u8 ? 1 : e == element::i16 ? 2 : 4;
}

/// |a - r| <= absolute + relative * |r|. Both zero: equal bytes.
struct tolerance {
  double absolute = 0;
  double relative = 0;
};

struct output_array {
  std::string name;
  element type = element::f32;
  std::uint64_t count = 0;  ///< elements
  tolerance allowed;        ///< how far from the reference the device may be

  [[nodiscard]] std::uint64_t bytes() const { return count * size_of(type); }
};

/// Where the arrays lie in device memory. Inputs are for reading only: their checksum is taken
/// after the computation.
struct device_arrays {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;

  template <class T>
  [[nodiscard]] T const* input(std::size_t i) const {
    return reinterpret_cast<T const*>(inputs.at(i));
  }
  template <class T>
  [[nodiscard]] T* output(std::size_t i) const {
    return reinterpret_cast<T*>(outputs.at(i));
  }
};

/// The files as the host sees them.
struct host_inputs {
  std::vector<std::span<std::byte const>> files;

  template <class T>
  [[nodiscard]] std::span<T const> as(std::size_t i) const {
    return {reinterpret_cast<T const*>(files.at(i).data()), files.at(i).size() / sizeof(T)};
  }
};

/// Outputs copied to the host, or computed there. Zero at first.
class host_outputs {
 public:
  explicit host_outputs(std::vector<output_array> shapes);

  [[nodiscard]] std::vector<output_array> const& shapes() const { return shapes_; }
  void allow(std::size_t i, tolerance t) { shapes_.at(i).allowed = t; }
  [[nodiscard]] std::vector<std::byte>& bytes(std::size_t i) { return bytes_.at(i); }
  [[nodiscard]] std::vector<std::byte> const& bytes(std::size_t i) const { return bytes_.at(i); }

  template <class T>
  [[nodiscard]] std::span<T> as(std::size_t i) {
    return {reinterpret_cast<T*>(bytes_.at(i).data()), shapes_.at(i).count};
  }
  template <class T>
  [[nodiscard]] std::span<T const> as(std::size_t i) const {
    return {reinterpret_cast<T const*>(bytes_.at(i).data()), shapes_.at(i).count};
  }

 private:
  std::vector<output_array> shapes_;
  std::vector<std::vector<std::byte>> bytes_;
};

/// Says where two sets of outputs of the same shapes first differ; empty if they do not. `exact`:
/// bytes must be equal; otherwise the tolerance of each wanted array holds.
[[nodiscard]] std::string difference(host_outputs const& got, host_outputs const& wanted,
                                     bool exact);

}  // namespace gpufs::apps
