// <gpufs/compat/gmac.h>: what it promises.
#include <gpufs/compat/adsm.h>
#include <gpufs/compat/gmac.h>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs::test;

namespace {

/// What the child of this program for `part` prints. It must succeed.
std::string output_of(char const* part) {
  scratch_folder folder;
  std::string const output = folder / "output";
  child c(part, folder / "nothing", {.output_to = output});
  bool const succeeds = c.succeeds();
  auto text = text_of(output);
  CHECK_MESSAGE(succeeds, text);
  return text;
}

bool says(std::string const& output, char const* line) {
  return output.find(line) != std::string::npos;
}

void* refused(char const* variable, char const* value) {
  ::setenv(variable, value, 1);
  void* m = &m;
  CHECK(gmacMalloc(&m, 100) == gmacErrorInvalidValue);
  ::unsetenv(variable);
  return m;
}

}  // namespace

TEST_CASE("gmac: memory, a kernel, synchronize, copies and fills") {
  gpufs::shared_memory const in_front_of_doctest;  // its handler of signals, as in compat_adsm_test
  constexpr std::uint64_t n = 100'000;
  float *a = nullptr, *b = nullptr, *c = nullptr;
  REQUIRE(gmacMalloc(reinterpret_cast<void**>(&a), n * 4) == gmacSuccess);
  REQUIRE(gmacGlobalMalloc(reinterpret_cast<void**>(&b), n * 4) == gmacSuccess);
  REQUIRE(gmacMalloc(reinterpret_cast<void**>(&c), n * 4) == gmacSuccess);
  CHECK(gmacPtr(a + 5) == a + 5);
  CHECK(gmacPtr(&a) == nullptr);
  std::vector<float> ones(n, 1);
  CHECK(gmacMemcpy(a, ones.data(), n * 4) == a);
  CHECK(gmacMemset(b, 0, n * 4) == b);
  b[7] = 5;
  gpufs::launch(add_vectors, dim3(4), dim3(64), gmacPtr(a), gmacPtr(b), gmacPtr(c), n);
  CHECK(gmacThreadSynchronize() == gmacSuccess);
  CHECK(gmacMemcpy(ones.data(), c, n * 4) == ones.data());
  CHECK(ones[6] == 1);
  CHECK(ones[7] == 6);
  CHECK(c[n - 1] == 1);
  CHECK(gmacMemcpy(a, ones.data(), n * 4 + 1) == nullptr);
  for (auto* m : {a, b, c}) CHECK(gmacFree(m) == gmacSuccess);
}

TEST_CASE("gmac: the program's own memory, at its address") {
  constexpr std::uint64_t n = 1 << 16;
  // Each of whole pages, so that no page is pinned twice.
  auto const pages = [] {
    return std::unique_ptr<float[], decltype(&std::free)>(
        static_cast<float*>(std::aligned_alloc(4096, n * 4)), &std::free);
  };
  auto const a = pages(), b = pages(), c = pages();
  std::fill_n(a.get(), n, 1.0f);
  std::fill_n(b.get(), n, 2.0f);
  for (auto* const m : {a.get(), b.get(), c.get()}) {
    REQUIRE(gmacMemoryMap(m, n * 4, GMAC_PROT_READWRITE) == gmacSuccess);
    CHECK(gmacPtr(m + n - 1) == m + n - 1);
  }
  CHECK(gmacMemoryMap(a.get() + 10, 4, GMAC_PROT_READ) == gmacErrorInvalidValue);
  gpufs::launch(add_vectors, dim3(4), dim3(64), a.get(), b.get(), c.get(), n);
  CHECK(gmacThreadSynchronize() == gmacSuccess);
  CHECK(c[n - 1] == 3);
  CHECK(gmacMemoryUnmap(a.get(), 4) == gmacErrorInvalidValue);
  for (auto* const m : {a.get(), b.get(), c.get()}) CHECK(gmacMemoryUnmap(m, n * 4) == gmacSuccess);
  CHECK(gmacMemoryUnmap(a.get(), n * 4) == gmacErrorInvalidValue);
  CHECK(gmacPtr(a.get()) == nullptr);
}

TEST_CASE("gmac: errors") {
  void* m = &m;
  CHECK(gmacMalloc(nullptr, 1) == gmacErrorInvalidValue);
  CHECK(gmacMalloc(&m, 0) == gmacErrorInvalidValue);
  CHECK(m == nullptr);
  CHECK(gmacMalloc(&m, ~std::size_t(0)) == gmacErrorMemoryAllocation);
  CHECK(gmacFree(nullptr) == gmacSuccess);
  CHECK(gmacFree(&m) == gmacErrorInvalidValue);
  CHECK(gmacMemoryMap(nullptr, 1, GMAC_PROT_READ) == gmacErrorInvalidValue);
  REQUIRE(gmacMalloc(&m, 1) == gmacSuccess);
  CHECK(gmacMemoryMap(m, 1, GMAC_PROT_READ) == gmacErrorInvalidValue);
  CHECK(gmacFree(m) == gmacSuccess);
}

TEST_CASE("child: settings of GMAC") {
  if (!is_part("settings of GMAC")) return;
  CHECK(refused("GMAC_PROTOCOL", "eager") == nullptr);
  CHECK(refused("GMAC_BLOCK_SIZE", "5000") == nullptr);
  CHECK(refused("GMAC_BLOCK_SIZE", "64M") == nullptr);
  ::setenv("GMAC_PROTOCOL", "Lazy", 1);
  ::setenv("GMAC_BLOCK_SIZE", "65536", 1);
  void* m = nullptr;
  CHECK(gmacMalloc(&m, 1 << 20) == gmacSuccess);  // tries again
  CHECK(adsmSafe(m) == m);                        // one memory for both
  CHECK(gmacFree(m) == gmacSuccess);
}

TEST_CASE("gmac: settings come from the environment, and wrong ones are named") {
  auto const output = output_of("settings of GMAC");
  CHECK(says(output, "GMAC_PROTOCOL=eager: must be batch, lazy or rolling"));
  CHECK(says(output, "GMAC_BLOCK_SIZE=5000: must be a power of two from 4K to 32M"));
  CHECK(says(output, "GMAC_BLOCK_SIZE=64M: must be"));
}

TEST_CASE("gmac: a child of fork() gets no memory, and the parent keeps its own") {
  void* m = nullptr;
  REQUIRE(gmacMalloc(&m, 4096) == gmacSuccess);
  REQUIRE(gmacMemset(m, 7, 4096) == m);
  pid_t const child = ::fork();
  if (child == 0) {
    void* other = nullptr;
    ::_exit(gmacMalloc(&other, 4096) == gmacSuccess ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  char first = 0;
  CHECK(gmacMemcpy(&first, m, 1) == &first);
  CHECK(first == 7);
  CHECK(gmacFree(m) == gmacSuccess);
}
