#include <gpufs/owner/injected_faults.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <utility>

namespace gpufs {

namespace {

thread_local std::shared_ptr<testing::fault_injector> injected;

/// Gives the calling thread an injector, and takes it away again: a constructor that throws may not
/// have taken it, and the thread's next filesystem must not get it.
class injection {
 public:
  explicit injection(std::shared_ptr<testing::fault_injector> faults) noexcept {
    injected = std::move(faults);
  }
  ~injection() { injected = nullptr; }
  injection(injection const&) = delete;
  injection& operator=(injection const&) = delete;

  [[nodiscard]] config const& with(config const& settings) const noexcept { return settings; }
};

}  // namespace

std::shared_ptr<testing::fault_injector> owner::take_injected_faults() noexcept {
  return std::exchange(injected, nullptr);
}

// The injection lives until the base is constructed.
testing::filesystem::filesystem(config const& settings, std::shared_ptr<fault_injector> faults)
    : gpufs::filesystem(injection(std::move(faults)).with(settings)) {}

}  // namespace gpufs
