// BlackScholes (DRAGON): prices of European options. Three files in, two out, each byte once.
#include <gpufs/device.hpp>

#include <apps/harness/input_file.hpp>
#include <apps/harness/parallel.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_program.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>

#include <fcntl.h>

namespace gpufs::apps::workloads {

namespace {

enum : unsigned { object_price, object_strike, object_years, object_call, object_put };

constexpr float rate = 0.02f, volatility = 0.30f;

/// The normal distribution's integral, by the polynomial of Abramowitz and Stegun, 26.2.17.
template <class T>
__host__ __device__ inline T normal_integral(T d) {
  T const k = T(1) / (T(1) + T(0.2316419) * std::abs(d));
  T const c =
      std::exp(T(-0.5) * d * d) * T(0.39894228040143267794) * k *
      (T(0.31938153) +
       k * (T(-0.356563782) + k * (T(1.781477937) + k * (T(-1.821255978) + k * T(1.330274429)))));
  return d > T(0) ? T(1) - c : c;
}

template <class T>
struct values_of_option {
  T call, put;
};

template <class T>
__host__ __device__ inline values_of_option<T> value_option(T price, T strike, T years) {
  T const r = T(rate), v = T(volatility);
  T const root = std::sqrt(years);
  T const d1 = (std::log(price / strike) + (r + T(0.5) * v * v) * years) / (v * root);
  T const n1 = normal_integral(d1), n2 = normal_integral(d1 - v * root);
  T const later = strike * std::exp(-r * years);
  return {price * n1 - later * n2, later * (T(1) - n2) - price * (T(1) - n1)};
}

__global__ void __launch_bounds__(128)
    value_options(float const* price, float const* strike, float const* years, float* call,
                  float* put, std::uint64_t n) {
  std::uint64_t const i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= n) return;
  auto const v = value_option(price[i], strike[i], years[i]);
  call[i] = v.call;
  put[i] = v.put;
}

class black_scholes final : public file_workload {
 public:
  explicit black_scholes(setup const& s) : seed_(s.seed), n_(s["footprint"] / 20) {
    std::uint64_t const bytes = 4 * n_;
    auto const values = [this](unsigned array) {
      return fill_elements<float>([this, array](std::uint64_t i) { return value(array, i); });
    };
    objects_ = {{.name = "StockPrice", .bytes = bytes, .fill = values(object_price)},
                {.name = "OptionStrike", .bytes = bytes, .fill = values(object_strike)},
                {.name = "OptionYears", .bytes = bytes, .fill = values(object_years)},
                {.name = "CallResult", .bytes = bytes, .use = object_use::output},
                {.name = "PutResult", .bytes = bytes, .use = object_use::output}};
    rules_ = {{.object = object_call, .type = element::f32, .l1 = 1e-5},
              {.object = object_put, .type = element::f32, .l1 = 1e-5}};
  }

  std::vector<file_object> const& objects() const override { return objects_; }
  std::vector<result_rule> const& rules() const override { return rules_; }

  void compute(file_arrays& a) override {
    auto const blocks = static_cast<unsigned>((n_ + 127) / 128);
    launch_on(a,
              {{object_price, access::read},
               {object_strike, access::read},
               {object_years, access::read},
               {object_call, access::write},
               {object_put, access::write}},
              value_options, blocks, 128, a.of<float>(object_price), a.of<float>(object_strike),
              a.of<float>(object_years), a.of<float>(object_call), a.of<float>(object_put), n_);
  }

  void reference(unsigned object, std::uint64_t first, std::span<double> to) const override {
    for (std::uint64_t i = 0; i < to.size(); ++i) {
      auto const v =
          value_option<double>(value(object_price, first + i), value(object_strike, first + i),
                               value(object_years, first + i));
      to[i] = object == object_call ? v.call : v.put;
    }
  }

  /// Call - Put = S - X e^(-RT), for each option.
  void check_more(work_files const& files, checks& c) const override {
    open_file_of const calls(files.path(object_call), O_RDONLY);
    open_file_of const puts(files.path(object_put), O_RDONLY);
    std::mutex mutex;
    parallel_ranges(n_, 1 << 16, [&](std::uint64_t begin, std::uint64_t end) {
      std::vector<float> call(end - begin), put(end - begin);
      calls.read(call.data(), call.size() * 4, begin * 4);
      puts.read(put.data(), put.size() * 4, begin * 4);
      for (std::uint64_t i = begin; i < end; ++i) {
        double const got = double{call[i - begin]} - double{put[i - begin]};
        double const wanted =
            value(object_price, i) -
            value(object_strike, i) * std::exp(-double{rate} * value(object_years, i));
        if (std::abs(got - wanted) <= 5e-5 + 1e-5 * std::abs(wanted)) continue;
        std::lock_guard const lock(mutex);
        c.near("put-call parity", i, got, wanted, 5e-5, 1e-5);
      }
    });
  }

  void check_counters(mapping_statistics const& got, checks& c) const override {
    check_streamed(got, {.read = 12 * n_, .written = 8 * n_}, c);
  }

 private:
  [[nodiscard]] float value(unsigned array, std::uint64_t i) const {
    float const u = uniform(array_seed(seed_, array), i);
    if (array == object_price) return 5.0f + 25.0f * u;
    if (array == object_strike) return 1.0f + 99.0f * u;
    return 0.25f + 9.75f * u;
  }

  std::uint64_t seed_, n_;
  std::vector<file_object> objects_;
  std::vector<result_rule> rules_;
};

}  // namespace

description const workload_BlackScholes = {
    .name = "BlackScholes",
    .what = "prices of options, from three files into two",
    .parameters = {{"footprint", 3 << 20, 4ull << 30, "bytes of all files", 20, 1ull << 42}},
    .make = make_file_program<black_scholes>,
    .has_files = true,
};

}  // namespace gpufs::apps::workloads
