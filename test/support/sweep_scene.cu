// The calls and the checks of scenarios with faults.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/descriptors.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>
#include <test/support/sweep_scene.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fcntl.h>

namespace gpufs::test {

namespace {

namespace cg = cooperative_groups;

__global__ void unlink_it(fs_ref fs, char const* path, int* result) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  int const unlinked = gunlink(io, path);
  if (threadIdx.x == 0) *result = unlinked;
}

}  // namespace

config sweep_config() {
  constexpr auto page = sweep_scene::page;
  auto c = small_config(page, 16);
  c.staging_size = c.prefetch_memory = 64 << 10;
  c.write_memory = 8 * page;
  c.host_threads = 1;
  c.max_open_files = 8;
  c.seats = 8;
  c.backend = io_backend::pread;
  c.rpc_timeout_ms = 120'000;  // bounds the run of broken code
  return c;
}

void sweep_scene::make_filesystem(config const& c) {
  fs = std::make_unique<filesystem>(c);
  descriptors = open_descriptors();
}

void sweep_scene::check_result(std::int64_t got, std::int64_t wanted) const {
  bool const explained = got < 0 && fault.happened() && fault.explains(got);
  CHECK_MESSAGE((got == wanted || explained), "got ", got, ", expected ", wanted);
}

std::size_t sweep_scene::check_bytes(std::int64_t got, std::uint64_t count) const {
  if (got <= 0 || got > std::int64_t(count) || !fault.happened())
    check_result(got, std::int64_t(count));
  return std::size_t(std::clamp<std::int64_t>(got, 0, std::int64_t(count)));
}

int sweep_scene::open(int flags) { return opened_by_host(open_in_kernel(*fs, path, flags)); }

int sweep_scene::opened_by_host(int fd) {
  if (fd > 0)
    opened.push_back(fd);
  else
    check_result(fd, 1);
  return fd;
}

void sweep_scene::close(int fd) {
  op_batch batch;
  batch.close(0, fd);
  batch.run(fs->ref(), 1, 64);
  check_result(batch.result(0), 0);
  // Also after an error.
  if (auto const at = std::ranges::find(opened, fd); at != opened.end()) opened.erase(at);
}

bool sweep_scene::write(int fd, std::uint64_t seed, std::uint64_t offset, std::uint64_t count) {
  auto const bytes = some_bytes(seed, offset, count);
  op_batch batch;
  batch.write(0, fd, std::int64_t(offset), bytes);
  batch.run(fs->ref(), 1, 64);
  auto const acknowledged = check_bytes(batch.result(0), count);
  put(offset, bytes, acknowledged);
  return acknowledged == count;
}

void sweep_scene::put(std::uint64_t offset, std::vector<std::byte> const& bytes,
                      std::size_t acknowledged) {
  auto const store = [&](std::vector<std::byte>& file, std::size_t count) {
    if (count == 0) return;
    file.resize(std::max<std::size_t>(file.size(), offset + count));
    std::copy_n(bytes.begin(), count, file.begin() + std::ptrdiff_t(offset));
  };
  if (acknowledged < bytes.size()) {
    perhaps.push_back(expected);
    store(perhaps.back(), bytes.size());
  }
  store(expected, acknowledged);
  for (auto& file : perhaps) store(file, acknowledged);
}

void sweep_scene::resize(std::size_t size) {
  expected.resize(size);
  for (auto& file : perhaps) file.resize(size);
}

bool sweep_scene::holds(std::vector<std::byte> const& bytes, std::uint64_t offset) const {
  if (bytes.empty()) return true;
  // The usual case by memcmp(), as loops over bytes take long under sanitizers.
  if (offset <= expected.size() && bytes.size() <= expected.size() - offset &&
      std::memcmp(bytes.data(), expected.data() + offset, bytes.size()) == 0)
    return true;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto const at = std::size_t(offset) + i;
    // What lies behind a write that failed is a gap.
    bool ok = bytes[i] == (at < expected.size() ? expected[at] : std::byte{0});
    for (auto const& file : perhaps) ok = ok || (at < file.size() && bytes[i] == file[at]);
    if (!ok) return false;
  }
  return true;
}

void sweep_scene::read(int fd, std::uint64_t offset, std::uint64_t count) {
  count = std::min<std::uint64_t>(count, expected.size() - offset);
  op_batch batch;
  batch.read(0, fd, std::int64_t(offset), count);
  batch.run(fs->ref(), 1, 64);
  auto const got = batch.bytes(0);
  CHECK(check_bytes(batch.result(0), count) == got.size());
  CHECK(holds(got, offset));
}

void sweep_scene::sync(int fd) {
  op_batch batch;
  batch.sync(0, fd);
  batch.run(fs->ref(), 1, 64);
  check_result(batch.result(0), 0);
}

void sweep_scene::truncate(int fd, std::uint64_t size) {
  op_batch batch;
  batch.truncate(0, fd, std::int64_t(size));
  batch.run(fs->ref(), 1, 64);
  check_result(batch.result(0), 0);
  if (batch.result(0) == 0) resize(size);
}

void sweep_scene::unlink() {
  device_paths const name({path});
  buffer<int> result(1);
  launch(unlink_it, 1, 64, fs->ref(), name.text(), result.data());
  this_thread_stream().synchronize();
  int unlinked = 1;
  result.copy_to_host(&unlinked, 1);
  check_result(unlinked, 0);
  CHECK(std::filesystem::exists(path) == (unlinked != 0));
}

void sweep_scene::check_afterwards() {
  auto const state = inspect(fs->ref());
  CHECK(state.problems == "");
  CHECK(state.quarantined == 0);
  for (int const fd : opened) check_result(fs->close(fd), 0);
  CHECK(fs->sync() == 0);
  CHECK(fs->unwritten().empty());
  if (std::filesystem::exists(path)) {
    auto const bytes = pread_bytes(path, 0, ~0ull);
    auto longest = expected.size();
    for (auto const& file : perhaps) longest = std::max(longest, file.size());
    CHECK(bytes.size() >= expected.size());
    CHECK(bytes.size() <= longest);
    CHECK(holds(bytes));
    int const fd = open_in_kernel(*fs, path, O_RDWR);
    CHECK(fd > 0);
    op_batch batch;
    batch.read(0, fd, 0, bytes.size());
    batch.run(fs->ref(), 1, 64);
    CHECK(batch.result(0) == std::int64_t(bytes.size()));
    CHECK(batch.bytes(0) == bytes);
    CHECK(fs->close(fd) == 0);
  }
  wait_until([&] { return open_descriptors() == descriptors; }, "all host files closed");
}

}  // namespace gpufs::test
