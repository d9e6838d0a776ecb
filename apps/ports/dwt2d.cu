// DWT2D (Rodinia): the discrete wavelet transform of a picture of red, green and blue bytes, in
// three levels, by the wavelet 5/3 or 9/7.
#include <gpufs/gpufs.hpp>

#include <apps/common/program.hpp>
#include <apps/harness/extras.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/harness/picture_file.hpp>
#include <apps/harness/real_input.hpp>
#include <apps/ports/all.hpp>
#include <apps/ports/dwt2d_wavelet.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace gpufs::apps {

namespace {

constexpr unsigned components = 3;

/// Takes one component out of the interleaved samples.
template <class T>
__global__ void split_component(std::uint8_t const* samples, unsigned component,
                                std::uint64_t count, T* plane) {
  std::uint64_t const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i < count) prepare_sample(samples[components * i + component], plane[i]);
}

/// One lifting step along the rows (or the columns) of a plane: a thread for each sample that
/// changes. Samples of the other parity do not change in this step, so the plane can be changed in
/// place.
template <class T>
__global__ void lift(T* plane, level_shape s, bool along_rows, lifting_step step) {
  std::uint64_t const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  std::uint64_t const j = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  std::uint64_t const x = along_rows ? 2 * i + step.parity : i;
  std::uint64_t const y = along_rows ? j : 2 * j + step.parity;
  if (x >= s.columns || y >= s.rows) return;
  T const* const from = along_rows ? plane + y * s.columns : plane + x;
  std::uint64_t const distance = along_rows ? 1 : s.columns;
  std::uint64_t const p = along_rows ? x : y, n = along_rows ? s.columns : s.rows;
  plane[y * s.columns + x] =
      lifted(from[p * distance], from[before(p) * distance], from[after(p, n) * distance], step);
}

/// Sorts the coefficients into bands: the lowest one to `low`, for the next level, the others to
/// their places in `out`.
template <class T>
__global__ void sort_bands(T const* plane, level_shape s, T* low, T* out) {
  std::uint64_t const x = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  std::uint64_t const y = blockIdx.y * std::uint64_t{blockDim.y} + threadIdx.y;
  if (x >= s.columns || y >= s.rows) return;
  T value = plane[y * s.columns + x];
  if constexpr (std::is_same_v<T, float>) {  // along rows, then along columns, as two products
    value *= x % 2 == 0 ? 1 / scale_97 : scale_97;
    value *= y % 2 == 0 ? 1 / scale_97 : scale_97;
  }
  (x % 2 == 0 && y % 2 == 0 ? low : out)[s.place(x, y)] = value;
}

/// T: float for 9/7, int32 for 5/3.
template <class T>
class dwt2d final : public port {
 public:
  explicit dwt2d(problem const& p)
      : problem_(p), shape_{p.pick(192u, 4096u, 16384u), p.pick(192u, 4096u, 16384u)} {
    if (p.input.empty()) return;
    auto const size = read_real_input(p.input, {"rows", "columns"}, components);
    shape_ = {size.at("columns"), size.at("rows")};
    if (shape_.columns < 16 || shape_.rows < 16)
      throw usage_error("--input=" + p.input + ": must have 16 rows and columns at least");
    check_rows(p.input, shape_.rows, block.y);
  }

  std::vector<input_file> files() const override {
    auto const sample = [s = shape_, seed = problem_.seed](std::uint64_t i) {
      std::uint64_t const c = i % components, x = i / components % s.columns,
                          y = i / components / s.columns;
      std::uint64_t const slope = c == 0   ? 223 * x / s.columns
                                  : c == 1 ? 223 * y / s.rows
                                           : 223 * (x + y) / (s.columns + s.rows);
      return static_cast<std::uint8_t>(slope + generate_below(seed, i, 32));
    };
    std::uint64_t const row = shape_.columns * components;
    auto file = whole_file("img.rgb8", shape_.rows * row, row, fill_elements<std::uint8_t>(sample));
    file.path = problem_.input;
    return {file};
  }

  std::vector<output_array> outputs() const override {
    if constexpr (std::is_same_v<T, float>) {
      return {{"coefficients", element::f32, components * pixels(), {2e-5, 1e-5}}};
    } else {
      return {{"coefficients", element::i32, components * pixels(), {}}};
    }
  }

  void prepare() override {
    for (auto& p : plane_) p = buffer<T>(pixels());
    load_kernel(split_component<T>);
    load_kernel(lift<T>);
    load_kernel(sort_bands<T>);
  }

  void compute(device_arrays const& a) override {
    for (unsigned c = 0; c < components; ++c) {
      T* plane = plane_[0].data();
      T* low = plane_[1].data();
      T* const out = a.output<T>(0) + c * pixels();
      launch(split_component<T>, static_cast<unsigned>((pixels() + 255) / 256), 256,
             a.input<std::uint8_t>(0), c, pixels(), plane);
      level_shape s = shape_;
      for (unsigned level = 0; level < wavelet_levels; ++level, s = s.next()) {
        if constexpr (std::is_same_v<T, float>) {
          for (auto const& step : steps_97) launch(lift<T>, grid(s), block, plane, s, true, step);
          for (auto const& step : steps_97) launch(lift<T>, grid(s), block, plane, s, false, step);
        } else {
          for (auto const& step : steps_53) launch(lift<T>, grid(s), block, plane, s, false, step);
          for (auto const& step : steps_53) launch(lift<T>, grid(s), block, plane, s, true, step);
        }
        launch(sort_bands<T>, grid(s), block, plane, s, level + 1 == wavelet_levels ? out : low,
               out);
        std::swap(plane, low);
      }
    }
  }

  host_outputs reference(host_inputs const& in) const override {
    host_outputs out(outputs());
    for (unsigned c = 0; c < components; ++c) {
      auto const component = out.as<T>(0).subspan(c * pixels(), pixels());
      parallel_for(pixels(), 1 << 16, [&](std::uint64_t i) {
        prepare_sample(in.as<std::uint8_t>(0)[components * i + c], component[i]);
      });
      transform<T>(component, shape_);
    }
    return out;
  }

  /// The host's coefficients; and the picture must come out again.
  std::string check(host_inputs const& in, host_outputs const& got) const override {
    if (auto wrong = port::check(in, got); !wrong.empty()) return wrong;
    for (unsigned c = 0; c < components; ++c) {
      auto const coefficients = got.as<T>(0).subspan(c * pixels(), pixels());
      std::vector<T> restored(coefficients.begin(), coefficients.end());
      restore<T>(restored, shape_);
      std::uint64_t const wrong = parallel_find(pixels(), [&](std::uint64_t i) {
        T wanted;
        prepare_sample(in.as<std::uint8_t>(0)[components * i + c], wanted);
        return !(std::abs(static_cast<double>(restored[i]) - static_cast<double>(wanted)) <=
                 (std::is_same_v<T, float> ? 1e-4 : 0));
      });
      if (wrong != pixels())
        return "sample " + std::to_string(wrong) + " of component " + std::to_string(c) +
               " is not restored";
    }
    return {};
  }

  /// The green component's coefficients in the usual order: the lowest band at the top left, the
  /// others around it.
  std::vector<std::string> write_pictures(host_outputs const& got,
                                          std::string const& folder) const override {
    auto const from = got.as<T>(0).subspan(pixels(), pixels());
    double const unit = std::is_same_v<T, float> ? 255 : 1;
    std::vector<std::uint8_t> samples(pixels());
    auto const show = [&](std::uint64_t x, std::uint64_t y, std::uint64_t place, double gain) {
      samples[y * shape_.columns + x] = static_cast<std::uint8_t>(
          std::clamp(128 + gain * unit * static_cast<double>(from[place]), 0., 255.));
    };
    level_shape s = shape_;
    for (unsigned level = 0; level < wavelet_levels; ++level, s = s.next()) {
      for (std::uint64_t y = 0; y < s.rows; ++y) {
        for (std::uint64_t x = 0; x < s.columns; ++x) {
          bool const low = x % 2 == 0 && y % 2 == 0;
          if (low && level + 1 != wavelet_levels) continue;
          show(x / 2 + (x % 2 == 0 ? 0 : s.low_columns()), y / 2 + (y % 2 == 0 ? 0 : s.low_rows()),
               s.place(x, y), low ? 1 : 4);
        }
      }
    }
    return {write_picture(folder, "dwt2d.png", std::span<std::uint8_t const>(samples),
                          shape_.columns, shape_.rows, 1)};
  }

 private:
  static constexpr dim3 block{32, 8};

  [[nodiscard]] std::uint64_t pixels() const { return shape_.columns * shape_.rows; }
  [[nodiscard]] static dim3 grid(level_shape s) {
    return {static_cast<unsigned>((s.columns + 31) / 32), static_cast<unsigned>((s.rows + 7) / 8)};
  }

  problem problem_;
  level_shape shape_;
  buffer<T> plane_[2];
};

}  // namespace

port_description const port_dwt2d{
    .name = "dwt2d",
    .summary = "Rodinia DWT2D: the wavelet transform of a picture that is read from a file",
    .blocks = 128,
    .fused = false,
    .real_input =
        "red, green and blue bytes; NAME.meta beside it has lines rows=NUMBER and columns=NUMBER",
    .pictures = true,
    .extras = {{"filter", "53", "53: integers, exact; 97: floats"}},
    .make = [](problem const& p) -> std::unique_ptr<port> {
      if (choice_option(p, "filter", {"53", "97"}) == 0)
        return std::make_unique<dwt2d<std::int32_t>>(p);
      return std::make_unique<dwt2d<float>>(p);
    },
};

}  // namespace gpufs::apps
