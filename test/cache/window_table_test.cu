// The table of file windows between host and kernels. A look-up finds a window complete or not at
// all. A window stays while a kernel may pull from it.
#include <gpufs/device/file_window.hpp>
#include <gpufs/gpufs.hpp>
#include <gpufs/owner/window_mapper.hpp>
#include <gpufs/source/window.hpp>

#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t window = 64 << 10;
constexpr std::uint32_t entries = 8;  // few, so that they come to mean other windows all the time
constexpr std::uint64_t versions = 3, windows = 4;

__host__ __device__ std::uint64_t address_of(std::uint64_t version, std::uint64_t n) {
  return version << 40 | n << 20;
}

struct tally {
  std::uint64_t found, wrong;
};

// Looks windows up over and over. An entry of window n has n + 1 KiB of it.
__global__ void look_up(fs_ref const* fs, std::uint32_t rounds, std::uint64_t from, tally* out) {
  tally t{};
  for (std::uint32_t i = 0; i < rounds; ++i) {
    std::uint64_t const r = from + blockIdx.x * blockDim.x + threadIdx.x + std::uint64_t(i) * 7919;
    std::uint64_t const version = 1 + r % versions;
    std::uint64_t const n = r / versions % windows;
    std::uint64_t const begin = r % 5 * 512;
    std::uint64_t const got = source::window_address(fs, version, n * window + begin, 512);
    if (got == 0) continue;
    ++t.found;
    if (got != address_of(version, n) + begin || begin + 512 > (n + 1) * 1024) ++t.wrong;
  }
  atomic_ref<std::uint64_t>(out->found).fetch_add(t.found, memory_order_relaxed);
  atomic_ref<std::uint64_t>(out->wrong).fetch_add(t.wrong, memory_order_relaxed);
}

// Says that it runs, waits for the host, then adds up the words of a window.
__global__ void sum_later(std::uint64_t const* words, std::uint64_t count, std::uint32_t* runs,
                          std::uint32_t* go_on, std::uint64_t* out) {
  atomic_ref<std::uint32_t, scope::system>(*runs).store(1, memory_order_release);
  for (unsigned pause = 0;
       atomic_ref<std::uint32_t, scope::system>(*go_on).load(memory_order_acquire) == 0;)
    backoff(pause);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) sum += words[i];
  *out = sum;
}

struct host_descriptor {
  explicit host_descriptor(std::string const& path)
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~host_descriptor() { ::close(fd); }
  int fd;
};

}  // namespace

TEST_CASE(
    "windows: look-ups find a window as it was published or not at all, while entries are emptied "
    "and filled") {
  CAPTURE(seed());
  buffer<rpc::window_entry> table(entries + rpc::window_entries_more);
  table.fill_zero();
  buffer<std::uint32_t> users(1);
  users.fill_zero();
  fs_ref ref;
  ref.windows = {table.data(), entries - 1, 16};
  buffer<fs_ref> handle(1);
  handle.copy_from_host(&ref, 1);
  buffer<tally> counted(1);
  counted.fill_zero();
  auto const mapper = owner::make_window_mapper(table.data(), entries, users.data());
  CHECK(mapper->idle());

  struct content {
    std::uint64_t version, n;
  };
  std::vector<content> held(entries, {0, 0});
  std::mt19937_64 random(seed());
  auto const change = [&] {
    std::uint64_t const version = 1 + random() % versions, n = random() % windows;
    auto const entry = (rpc::window_home(version, n) + random() % rpc::window_probes) % entries;
    if (held[entry].version != 0) REQUIRE(mapper->withdraw(entry));
    held[entry] = {version, n};
    REQUIRE(mapper->publish(entry, {version, n, address_of(version, n), (n + 1) * 1024}));
  };
  tally t{};
  for (int pass = 0; pass < 3 || t.found == 0; ++pass) {
    stream on;
    launch(launch_options{.grid = 4, .block = 64, .on = &on}, look_up,
           static_cast<fs_ref const*>(handle.data()), std::uint32_t(scaled(2000, 300)),
           std::uint64_t(pass), counted.data());
    while (!on.done()) change();
    on.synchronize();
    counted.copy_to_host(&t, 1);
  }
  CHECK(t.wrong == 0);
  for (std::uint64_t e = 0; e < entries; ++e) REQUIRE(mapper->withdraw(e));
  auto const before = t.found;
  launch(launch_options{.grid = 4, .block = 64}, look_up, static_cast<fs_ref const*>(handle.data()),
         100u, std::uint64_t(0), counted.data());
  this_thread_stream().synchronize();
  counted.copy_to_host(&t, 1);
  CHECK(t.found == before);
}

TEST_CASE(
    "windows: unmapping waits for the kernel that pulls, though its file is cut off meanwhile") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", window, 1);
  auto const bytes = pread_bytes(path, 0, window);
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < window; i += 8) {
    std::uint64_t word = 0;
    for (unsigned b = 0; b < 8; ++b) word |= std::uint64_t(bytes[i + b]) << 8 * b;
    expected += word;
  }
  detail::file_window mapped;
  host_descriptor const file{path};
  auto const result = detail::map_file_window(file.fd, 0, window, mapped);
  if (result.refused != detail::mapping_refusal::none) {
    MESSAGE("skipped: " << result.call << ": " << result.why);
    return;
  }
  pinned_buffer<std::uint32_t> flags(2);
  flags.fill_zero();
  buffer<std::uint64_t> sum(1);
  stream on;
  launch(launch_options{.on = &on}, sum_later,
         reinterpret_cast<std::uint64_t const*>(mapped.address), window / 8, flags.data(),
         flags.data() + 1, sum.data());
  auto const flag = [&](unsigned i) { return atomic_ref<std::uint32_t, scope::system>(flags[i]); };
  wait_until([&] { return flag(0).load(memory_order_acquire) == 1; }, "a kernel that runs");
  set_size(path, 0);
  std::atomic<bool> begun{false};
  std::thread unmapper([&] {
    begun.store(true, std::memory_order_release);
    detail::unmap_file_window(mapped);
  });
  wait_until([&] { return begun.load(std::memory_order_acquire); }, "a thread that unmaps");
  flag(1).store(1, memory_order_release);
  unmapper.join();
  on.synchronize();
  std::uint64_t got = 0;
  sum.copy_to_host(&got, 1);
  CHECK(got == expected);
}

TEST_CASE(
    "windows: a file that ends within a window, or before it, gives what there is or a refusal") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", window + 100, 1);
  host_descriptor const file{path};
  detail::file_window mapped;
  auto const result = detail::map_file_window(file.fd, window, 100, mapped);
  if (result.refused != detail::mapping_refusal::none) {
    MESSAGE("skipped: " << result.call << ": " << result.why);
    return;
  }
  CHECK(mapped.bytes == 100);
  CHECK(reinterpret_cast<std::uintptr_t>(mapped.address) % 16 == 0);
  detail::unmap_file_window(mapped);
  auto const behind = detail::map_file_window(file.fd, 2 * window, window, mapped);
  if (behind.refused == detail::mapping_refusal::none) {
    CHECK(mapped.bytes == 0);
    detail::unmap_file_window(mapped);
  }
}
