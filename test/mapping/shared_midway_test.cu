// What other threads do with shared memory between two steps of the library. The linker leads
// lseek() and fallocate() here.
#include <gpufs/mapping.hpp>

#include <test/mapping/beside_thread.hpp>
#include <test/mapping/budgets.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20;

/// What is done before call number `n` of one kind from then on returns.
class step {
 public:
  void before(int n, std::function<void()> work) {
    work_ = std::move(work);
    is_done_ = false;
    left_ = n;
  }
  void called() {
    if (left_ <= 0 || --left_ != 0) return;
    work_();
    is_done_ = true;
  }
  [[nodiscard]] bool is_done() const { return is_done_; }

 private:
  std::function<void()> work_;
  std::atomic<int> left_{0};
  std::atomic<bool> is_done_{false};
};
step hole_is_sought, hole_is_punched;

}  // namespace

extern "C" {
off_t __real_lseek(int fd, off_t offset, int from);
off_t __wrap_lseek(int fd, off_t offset, int from) {
  auto const result = __real_lseek(fd, offset, from);
  if (from == SEEK_HOLE) hole_is_sought.called();
  return result;
}
int __real_fallocate(int fd, int how, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int how, off_t offset, off_t bytes) {
  auto const result = __real_fallocate(fd, how, offset, bytes);
  hole_is_punched.called();
  return result;
}
}

// A chunk of four units, with bytes in the first and in the last.
TEST_CASE("midway: what is written as a chunk is to be spilled stays") {
  constexpr std::uint64_t chunk = 16 * mebi, chunks = 5;
  scratch_folder const folder;
  auto settings = tight(1, 0);
  settings.chunk_size = chunk;
  settings.spill_dir = folder.path();
  shared_memory memory(settings);
  mapping const m = memory.allocate(chunks * chunk, {.block = chunk});
  std::uint32_t volatile* const at = m.as<std::uint32_t>();
  at[0] = 5;
  at[chunk / 4 - 1] = 6;
  {
    beside_thread writer([&] { at[chunk / 2 / 4] = 7; });
    hole_is_sought.before(2, [&] { writer.go_as_far_as_it_can(); });
    for (std::uint64_t i = 1; i < chunks; ++i) at[i * chunk / 4] = 8;
    wait_until([] { return hole_is_sought.is_done(); }, "a chunk is to be spilled");
  }
  CHECK(at[chunk / 2 / 4] == 7);
  CHECK(at[0] == 5);
  CHECK(at[chunk / 4 - 1] == 6);
  for (std::uint64_t i = 1; i < chunks; ++i) CHECK(at[i * chunk / 4] == 8);
  CHECK(m.stats().spill_bytes != 0);
}

TEST_CASE("midway: bytes of a file are there while remap() lets the CPU write to them") {
  named_file const file(std::vector<std::uint32_t>(mebi, 5));
  shared_memory memory;
  mapping m = memory.map(file.path());
  std::uint32_t const volatile* const at = m.as<std::uint32_t>();
  CHECK(at[0] == 5);
  std::uint32_t seen = 0;
  {
    beside_thread reader([&] { seen = at[0]; });
    hole_is_punched.before(1, [&] { reader.go_as_far_as_it_can(); });
    CHECK(m.remap(access::read_write) == 0);
    CHECK(hole_is_punched.is_done());
  }
  CHECK(seen == 5);
  m.as<std::uint32_t>()[0] = 6;
  CHECK(m.unmap() == 0);
  CHECK(file.content()[0] == 6);
}
