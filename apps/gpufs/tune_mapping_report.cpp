// The output of `gpufs tune --mapping`: a table for each setting, and the settings as TOML.
#include <gpufs/device.hpp>

#include <apps/gpufs/tune_mapping.hpp>

#include <fmt/format.h>

#include <numeric>

namespace gpufs::apps {

namespace {

std::string what_ran(mapping_tune_options const& o, mapping_tune_result const& r) {
  return fmt::format("vector addition, three vectors of {}, {} rounds", format_size(r.bytes),
                     o.rounds);
}

}  // namespace

tuned_keys const& keys_swept() {
  static tuned_keys const keys{"coherence_block", "rolling_size"};
  return keys;
}

void print(mapping_tune_options const& o, mapping_tune_result const& r) {
  auto const device = current_device();
  fmt::print("gpufs tune --mapping on {}: {}\n", device.name, what_ran(o, r));
  for (auto const& s : r.sweeps) {
    std::vector<std::size_t> order(s.found.trials.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    fmt::print("\n{}\n", s.what);
    print_trials(s.found.trials, order, keys_swept(), s.found.best);
  }
  fmt::print(
      "\n* the best: the first of its table, unless another gains 2 % and more than the noise\n");
  auto const began = describe(r.start, keys_swept());
  if (are_same(r.best, r.start))
    fmt::print("{}, with which the search began, is the best\n", began);
  else
    fmt::print("{} gives {:.2f} times what {} gives, with which the search began\n",
               describe(r.best, keys_swept()), r.gain, began);
  fmt::print("results verified: {} runs; {:.0f} s\n", r.runs, r.seconds);
  if (device.kind == "emulated")
    fmt::print("emulated device: correctness only, the figures say nothing of a GPU\n");
}

tuned_text to_toml(mapping_tune_options const& o, mapping_tune_result const& r) {
  return to_toml(r.best, keys_swept(), "gpufs tune --mapping",
                 {when_and_where(), what_ran(o, r),
                  fmt::format("{:.3f} GB/s, {}", r.score.median, spread_of(r.score))});
}

}  // namespace gpufs::apps
