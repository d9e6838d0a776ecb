// main() of every suite: prints device and seed, then runs doctest. Compiled with
// GPUFS_TEST_NEEDS_DEVICE for suites with kernels: where no device is visible these exit with 77,
// which CTest and run-gpu-suites report as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <gpufs/device.hpp>

#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#ifdef GPUFS_EMULATED
#include <gpufs/device/emulated/settings.hpp>
#endif

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
  std::fflush(stdout);
  return doctest::Context(argc, argv).run();
}
