// <gpufs/compat/adsm.h>: what it promises. A vector addition as in ADSM's paper, written anew.
#include <gpufs/compat/adsm.h>

#include <test/mapping/kernels.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>

namespace {

using namespace gpufs::test;

// A list whose nodes point to each other, by the same addresses on both sides.
struct node {
  node* next;
  long value;
};

__global__ void add_to_list(node* first, long by) {
  if (thread_number() != 0) return;
  for (auto* n = first; n != nullptr; n = n->next) n->value += by;
}

/// doctest sets a handler of its own for each case, in front of the one of gpufs. A new address
/// space comes in front of that again.
struct handlers_in_front {
  gpufs::shared_memory again;
};

}  // namespace

TEST_CASE("adsm: vectors that the CPU fills, a call, and the sum on the CPU") {
  handlers_in_front const gpufs_handler;
  constexpr std::uint64_t n = 300'000;
  auto* const a = static_cast<float*>(adsmAlloc(n * sizeof(float)));
  auto* const b = static_cast<float*>(adsmAlloc(n * sizeof(float)));
  auto* const c = static_cast<float*>(adsmAlloc(n * sizeof(float)));
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  REQUIRE(c != nullptr);
  for (std::uint64_t i = 0; i < n; ++i) {
    a[i] = float(i);
    b[i] = 2;
  }
  REQUIRE(adsmCall(add_vectors, dim3(8), dim3(128), a, b, c, n) == 0);
  REQUIRE(adsmSync() == 0);
  bool right = true;
  for (std::uint64_t i = 0; i < n; ++i) right = right && c[i] == float(i) + 2;
  CHECK(right);
  CHECK(adsmFree(a) == 0);
  CHECK(adsmFree(b) == 0);
  CHECK(adsmFree(c) == 0);
}

TEST_CASE("adsm: a list of the CPU is the kernel's") {
  handlers_in_front const gpufs_handler;
  constexpr int count = 100;
  node* nodes[count];
  for (auto& n : nodes) {
    n = static_cast<node*>(adsmSafeAlloc(sizeof(node)));
    REQUIRE(n != nullptr);
    CHECK(adsmSafe(n) == n);
  }
  for (int i = 0; i < count; ++i) *nodes[i] = {i + 1 < count ? nodes[i + 1] : nullptr, i};
  REQUIRE(adsmCall(add_to_list, dim3(1), dim3(1), nodes[0], 1000l) == 0);
  REQUIRE(adsmSync() == 0);
  for (int i = 0; i < count; ++i) CHECK(nodes[i]->value == i + 1000);
  for (auto* n : nodes) CHECK(adsmFree(n) == 0);
}

TEST_CASE("adsm: errors") {
  errno = 0;
  CHECK(adsmAlloc(0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(adsmAlloc(~std::size_t(0)) == nullptr);
  CHECK(errno == ENOMEM);
  int own = 0;
  CHECK(adsmFree(nullptr) == 0);
  CHECK(adsmFree(&own) == -EINVAL);
  CHECK(adsmSafe(&own) == nullptr);
  auto* const m = static_cast<char*>(adsmAlloc(100));
  CHECK(adsmFree(m + 1) == -EINVAL);
  CHECK(adsmFree(m) == 0);
  CHECK(adsmFree(m) == -EINVAL);
  CHECK(adsmCall(add_to_list, dim3(0), dim3(1), static_cast<node*>(nullptr), 1l) == -EIO);
  CHECK(adsmSync() == 0);
}
