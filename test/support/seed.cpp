// Seed of randomised tests: from the environment or drawn once.
#include <test/support/seed.hpp>

#include <cstdlib>
#include <random>

namespace gpufs::test {

std::uint64_t seed() {
  static std::uint64_t const drawn = [] {
    if (char const* given = std::getenv("GPUFS_TEST_SEED"))
      return std::uint64_t{std::strtoull(given, nullptr, 0)};
    std::random_device source;
    return std::uint64_t{source()};
  }();
  return drawn;
}

}  // namespace gpufs::test
