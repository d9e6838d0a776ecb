// main() of every suite: prints device and seed, then runs doctest. Compiled with
// GPUFS_TEST_NEEDS_DEVICE for suites with kernels: where no device is visible these exit with 77,
// which CTest and run-gpu-suites report as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <gpufs/device.hpp>

#include <test/support/fork_child.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#ifdef GPUFS_EMULATED
#include <gpufs/device/emulated/settings.hpp>
#include <gpufs/mapping/user_fault_file.hpp>

#include <cstdlib>
#include <string_view>

/// Whether the suite shall run with userfaultfd, which this machine does not permit. Signals would
/// serve instead, and the suite of that has run already.
static bool lacks_user_faults() {
  char const* const how = std::getenv("GPUFS_FAULT_HANDLER");
  if (how == nullptr || std::string_view(how) != "userfault") return false;
  try {
    gpufs::shared::user_fault_file const file;
    return false;
  } catch (gpufs::device_error const& refused) {
    std::printf("suite skipped: %s\n", refused.what());
    return true;
  }
}
#endif

// Asked by LeakSanitizer at the end of a process. Leaks of a child are no matter: what it leaves
// alone ends with it. And the search waits for ever if another thread allocated at the time of
// fork().
extern "C" int __lsan_is_turned_off() { return gpufs::test::is_fork_child() ? 1 : 0; }

int main(int argc, char** argv) {
  bool const available = gpufs::device_available();
#ifdef GPUFS_TEST_NEEDS_DEVICE
  if (!available) {
    std::puts("device: none visible, suite skipped");
    return 77;
  }
#endif
  std::printf("device: %s\nseed: GPUFS_TEST_SEED=%llu\n",
              available ? gpufs::current_device().name.c_str() : "none",
              static_cast<unsigned long long>(gpufs::test::seed()));
#ifdef GPUFS_EMULATED
  std::printf("order of threads: GPUFS_EMULATED_SEED=%llu\n",
              static_cast<unsigned long long>(gpufs::emulated::current_settings().seed));
#endif
#ifdef GPUFS_EMULATED
  if (lacks_user_faults()) return 77;
#endif
  std::fflush(stdout);
  return doctest::Context(argc, argv).run();
}
