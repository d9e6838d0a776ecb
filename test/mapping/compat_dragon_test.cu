// DRAGON's functions: what a program written for them sees, and every error.
#include <gpufs/compat/dragon.h>
#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include <sys/stat.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t words = 20000, bytes = words * 4;

__global__ void add_words(std::uint32_t const* in, std::uint32_t* out, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count()) out[i] = in[i] + 1;
}

std::vector<std::uint32_t> numbers(std::uint32_t first) {
  std::vector<std::uint32_t> all(words);
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace

TEST_CASE("dragon: a kernel reads one file and writes another") {
  named_file const in(numbers(5)), out;
  void *from = nullptr, *to = nullptr;
  REQUIRE(dragon_map(in.path().c_str(), bytes, D_F_READ | D_F_USEHOSTBUF, &from) == D_OK);
  REQUIRE(dragon_map(out.path().c_str(), bytes, D_F_WRITE | D_F_CREATE, &to) == D_OK);
  auto* const source = static_cast<std::uint32_t const*>(from);
  auto* const target = static_cast<std::uint32_t*>(to);
  launch(add_words, 2, 64, source, target, words);
  synchronize();
  CHECK(target[words - 1] == words + 5);
  CHECK(dragon_sync(to) == D_OK);
  CHECK(out.content() == numbers(6));
  CHECK(dragon_remap(to, D_F_READ) == D_OK);
  CHECK(target[3] == 9);
  CHECK(dragon_remap(to, D_F_READ | D_F_WRITE) == D_OK);
  target[3] = 1;
  CHECK(dragon_flush(to) == D_OK);
  CHECK(out.content()[3] == 1);
  CHECK(dragon_unmap(from) == D_OK);
  CHECK(dragon_unmap(to) == D_OK);
  CHECK(dragon_unmap(to) == D_ERR_INTVAL);
}

TEST_CASE("dragon: D_F_CREATE empties a file, volatile data never reaches it") {
  shared_memory const in_front_of_doctest;  // its handler of signals, as in compat_adsm_test
  named_file const file(numbers(5)), temporary;
  void* address = nullptr;
  REQUIRE(dragon_map(file.path().c_str(), bytes / 2, D_READ | D_WRITE | D_F_CREATE, &address) ==
          D_OK);
  CHECK(static_cast<std::uint32_t*>(address)[7] == 0);
  CHECK(dragon_unmap(address) == D_OK);
  CHECK(file.content() == std::vector<std::uint32_t>(words / 2, 0));
  REQUIRE(dragon_map(temporary.path().c_str(), bytes, D_READ | D_WRITE | D_VOLATILE | D_F_CREATE,
                     &address) == D_OK);
  static_cast<std::uint32_t*>(address)[7] = 9;
  CHECK(dragon_remap(address, D_VOLATILE) == D_ERR_NOT_IMPLEMENTED);
  CHECK(dragon_remap(address, D_READ) == D_ERR_NOT_IMPLEMENTED);
  CHECK(dragon_remap(address, D_READ | D_WRITE) == D_ERR_NOT_IMPLEMENTED);
  CHECK(static_cast<std::uint32_t*>(address)[7] == 9);
  CHECK(dragon_unmap(address) == D_OK);
  CHECK(temporary.content() == std::vector<std::uint32_t>(words, 0));
}

TEST_CASE("dragon: two threads remap one mapping again and again") {
  shared_memory const in_front_of_doctest;
  named_file const file(numbers(5));
  void* address = nullptr;
  REQUIRE(dragon_map(file.path().c_str(), bytes, D_READ | D_WRITE, &address) == D_OK);
  static_cast<std::uint32_t*>(address)[7] = 3;
  std::atomic<unsigned> wrong{0};
  auto const remap = [&](unsigned short flags) {
    for (unsigned round = 0; round < scaled(2000, 300); ++round) {
      // Refused: the other thread still has the file open for writing.
      auto const result = dragon_remap(address, flags);
      if (result != D_OK && result != D_ERR_FILE) ++wrong;
    }
  };
  std::thread reader([&] { remap(D_READ); });
  std::thread writer([&] { remap(D_WRITE | D_READ); });
  reader.join();
  writer.join();
  CHECK(wrong == 0);
  CHECK(dragon_unmap(address) == D_OK);
  auto expected = numbers(5);
  expected[7] = 3;
  CHECK(file.content() == expected);
}

TEST_CASE("child: remaps managed memory") {
  if (!is_part("remaps managed memory")) return;
  ::setenv("GPUFS_BACKING", "managed", 1);
  void* address = nullptr;
  REQUIRE(dragon_map(given_path().c_str(), bytes, D_READ | D_WRITE, &address) == D_OK);
  CHECK(dragon_remap(address, D_READ) == D_ERR_NOT_IMPLEMENTED);
  CHECK(dragon_remap(address, D_READ | D_WRITE) == D_OK);
  CHECK(static_cast<std::uint32_t*>(address)[7] == 12);
  CHECK(dragon_unmap(address) == D_OK);
}

TEST_CASE("dragon: mappings in managed memory cannot be remapped for another use") {
  named_file const file(numbers(5));
  CHECK(child("remaps managed memory", file.path()).succeeds());
}

TEST_CASE("dragon: the paper's form maps from an offset") {
  shared_memory const in_front_of_doctest;
  named_file const file(numbers(5));
  void* address = nullptr;
  REQUIRE(dragon_map(file.path().c_str(), 4096, off_t(8192), D_READ, &address) == D_OK);
  CHECK(static_cast<std::uint32_t*>(address)[0] == 5 + 2048);
  CHECK(dragon_sync(address, 4096) == D_OK);
  CHECK(dragon_unmap(address) == D_OK);
}

TEST_CASE("dragon: errors") {
  named_file const file(numbers(5));
  scratch_folder const folder;
  void* address = nullptr;
  CHECK(dragon_map((folder / "missing").c_str(), 4096, D_READ, &address) == D_ERR_FILE);
  CHECK(dragon_map(file.path().c_str(), bytes + 1, D_READ, &address) == D_ERR_INTVAL);
  CHECK(dragon_map(file.path().c_str(), 0, D_READ, &address) == D_ERR_INTVAL);
  CHECK(dragon_map(file.path().c_str(), 4096, 1 << 10, &address) == D_ERR_INTVAL);
  CHECK(dragon_map(file.path().c_str(), 4096, D_READ, nullptr) == D_ERR_INTVAL);
  CHECK(dragon_map(nullptr, 4096, D_READ, &address) == D_ERR_INTVAL);
  CHECK(dragon_map_from(file.path().c_str(), 4096, 100, D_READ, &address) == D_ERR_INTVAL);
  CHECK(dragon_sync(&address) == D_ERR_INTVAL);
  CHECK(dragon_trash_set_num_blocks(4) == D_OK);
}
