// Settings of the emulated device: defaults, environment, bounds.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/executor.hpp>
#include <gpufs/device/emulated/settings.hpp>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace gpufs::emulated {

namespace {

struct bounds {
  char const* variable;
  std::uint64_t least;
  std::uint64_t most;
};
constexpr bounds blocks_bounds{"GPUFS_EMULATED_BLOCKS", 1, 256};
constexpr bounds seed_bounds{"GPUFS_EMULATED_SEED", 0, UINT64_MAX};
constexpr bounds preempt_bounds{"GPUFS_EMULATED_PREEMPT", 0, 1'000'000'000};
constexpr bounds split_bounds{"GPUFS_EMULATED_SPLIT", 0, 1'000'000'000};
constexpr bounds stack_bounds{"GPUFS_EMULATED_STACK", 16 << 10, 16 << 20};
constexpr bounds memory_bounds{"GPUFS_EMULATED_MEMORY", 0, UINT64_MAX};

[[noreturn]] void refuse(bounds const& allowed, std::string const& value) {
  throw device_error(std::string(allowed.variable) + "=" + value +
                     ": must be a whole number from " + std::to_string(allowed.least) + " to " +
                     std::to_string(allowed.most));
}

std::uint64_t require(bounds const& allowed, std::uint64_t value) {
  if (value < allowed.least || value > allowed.most) refuse(allowed, std::to_string(value));
  return value;
}

std::uint64_t from_environment(bounds const& allowed, std::uint64_t otherwise) {
  char const* const text = std::getenv(allowed.variable);
  if (text == nullptr) return otherwise;
  std::uint64_t value = 0;
  char const* const end = text + std::strlen(text);
  auto const [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stopped != end || text == end) refuse(allowed, text);
  return require(allowed, value);
}

settings load_settings() {
  settings s;
  s.blocks = unsigned(from_environment(blocks_bounds, s.blocks));
  s.seed = from_environment(seed_bounds, s.seed);
  s.preempt = unsigned(from_environment(preempt_bounds, s.preempt));
  s.split = unsigned(from_environment(split_bounds, s.split));
  s.stack_bytes = from_environment(stack_bounds, s.stack_bytes);
  s.memory_bytes = from_environment(memory_bounds, s.memory_bytes);
  return s;
}

struct settings_in_force {
  std::mutex mutex;
  settings now = load_settings();
  std::uint64_t launches = 0;
};

settings_in_force& in_force() {
  static settings_in_force s;
  return s;
}

}  // namespace

settings current_settings() {
  std::lock_guard const lock(in_force().mutex);
  return in_force().now;
}

void configure(settings const& to) {
  require(blocks_bounds, to.blocks);
  require(preempt_bounds, to.preempt);
  require(split_bounds, to.split);
  require(stack_bounds, to.stack_bytes);
  std::lock_guard const lock(in_force().mutex);
  in_force().now = to;
  in_force().launches = 0;
}

void number_launch(kernel_launch& launch) {
  std::lock_guard const lock(in_force().mutex);
  launch.how = in_force().now;
  launch.number = in_force().launches++;
}

}  // namespace gpufs::emulated
