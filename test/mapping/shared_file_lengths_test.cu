// Files of odd lengths and with holes behind objects: what they have afterwards, byte by byte.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096, mebi = 1 << 20, gibi = 1 << 30;

using bytes = std::vector<std::byte>;

__global__ void add_one(std::uint8_t* to, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count()) ++to[i];
}

__global__ void store_one_more(std::uint8_t const* from, std::uint8_t* to, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count())
    to[i] = static_cast<std::uint8_t>(from[i] + 1);
}

__global__ void store_at(std::uint8_t* to, std::uint8_t value) {
  if (thread_number() == 0) *to = value;
}

std::uint8_t* byte_pointer(mapping const& m) { return m.as<std::uint8_t>(); }

bytes all_of(std::string const& path) { return pread_bytes(path, 0, ~0ull); }

bool is_equal(mapping const& m, bytes const& all, std::uint64_t offset = 0) {
  return std::memcmp(m.data(), &all[offset], m.size()) == 0;
}

/// A kernel or the CPU finds the bytes of a file from an offset on as they are in `content`, and
/// makes each one more: in the file if the object may be written, else in a copy.
void check_part(shared_memory& memory, std::string const& path, bytes& content,
                map_options const& options, bool by_kernel) {
  auto const offset = options.offset, count = content.size() - offset;
  auto expected = content;
  for (auto i = offset; i < content.size(); ++i)
    expected[i] = static_cast<std::byte>(std::to_integer<unsigned>(content[i]) + 1);
  mapping m = memory.map(path, options);
  REQUIRE(m.size() == count);
  mapping const copy = memory.allocate(count);
  bool const is_read = options.access == access::read;
  // An object that is only written has nothing to add to.
  if (options.access == access::write) std::memcpy(copy.data(), &content[offset], count);
  std::uint8_t const* const from = byte_pointer(options.access == access::write ? copy : m);
  std::uint8_t* const to = byte_pointer(is_read ? copy : m);
  if (by_kernel && from == to)
    launch(add_one, 2, 64, to, count);
  else if (by_kernel)
    launch(store_one_more, 2, 64, from, to, count);
  else
    for (std::uint64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i] + 1);
  memory.synchronize();
  CHECK(is_equal(is_read ? copy : m, expected, offset));
  CHECK(m.unmap() == 0);
  if (!is_read) content = std::move(expected);
  CHECK(all_of(path) == content);  // and as long as it was
}

int error_of_map(shared_memory& memory, std::string const& path, map_options const& options) {
  try {
    static_cast<void>(memory.map(path, options));
    return 0;
  } catch (shared_memory_error const& e) {
    CHECK(std::string(e.what()).find(path) != std::string::npos);
    return e.code();
  }
}

/// The last byte of a file of so many bytes becomes each value, stored by a kernel or by the CPU.
/// Nothing else is written, and nothing else is read before.
void check_last_byte(std::string const& path, std::uint64_t length, memory_advice where,
                     map_options const& options, write_detection how) {
  write_range(path, 1, 0, length);
  auto content = all_of(path);
  mapping_config settings;
  settings.detect_writes = how;
  shared_memory memory(settings);
  mapping m = memory.map(path, options);
  CHECK(m.advise(0, length, where) == 0);
  launch(add_one, 1, 32, byte_pointer(m), std::uint64_t(0));
  CHECK(m.write_back() == 0);
  CHECK(m.stats().writeback_pages == 0);
  CHECK(m.stats().fill_bytes == 1);
  CHECK(m.stats().fills_skipped == length - 1);
  for (unsigned value = 0; value <= 256; ++value) {
    if (value % 2 == 0)
      launch(store_at, 1, 32, byte_pointer(m) + length - 1, std::uint8_t(value));
    else
      byte_pointer(m)[length - 1] = std::uint8_t(value);
    CHECK(m.write_back() == 0);
    content.back() = std::byte(value);
    CHECK(all_of(path) == content);
    memory.synchronize();
  }
}

std::uint64_t bytes_on_disk(int fd) {
  struct ::stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return std::uint64_t(status.st_blocks) * 512;
}

/// A descriptor of a file.
class opened_file {
 public:
  explicit opened_file(std::string const& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
  }
  ~opened_file() { ::close(fd_); }
  opened_file(opened_file const&) = delete;
  opened_file& operator=(opened_file const&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

TEST_CASE("files of odd lengths, whole and from an offset: all bytes count, and no others") {
  shared_memory memory;
  for (std::uint64_t const length :
       {std::uint64_t(1), page - 1, page, page + 1, 2 * mebi - 1, 2 * mebi, 2 * mebi + 1}) {
    scratch_folder const folder;
    auto const path = make_file(folder, "data", length);
    auto content = all_of(path);
    for (std::uint64_t const offset : {std::uint64_t(0), page, 2 * mebi}) {
      if (offset >= length) continue;
      for (auto const use : {access::read, access::read_write, access::write}) {
        for (auto const how : {coherence_protocol::rolling, coherence_protocol::lazy}) {
          for (bool const by_kernel : {false, true}) {
            CAPTURE(length);
            CAPTURE(offset);
            CAPTURE(int(use));
            CAPTURE(int(how));
            CAPTURE(by_kernel);
            check_part(memory, path, content, {.access = use, .offset = offset, .protocol = how},
                       by_kernel);
          }
        }
      }
    }
  }
}

TEST_CASE("an empty file is refused, unless it gets a length; 0 bytes of an object are no bytes") {
  scratch_folder const folder;
  auto const path = folder / "data";
  set_size(path, 0);
  shared_memory memory;
  for (auto const use : {access::read, access::read_write, access::write}) {
    CHECK(error_of_map(memory, path, {.access = use}) == EINVAL);
    if (use != access::read)
      CHECK(error_of_map(memory, path, {.access = use, .create = true}) == EINVAL);
    CHECK(std::filesystem::file_size(path) == 0);
  }
  mapping m = memory.map(path, {.access = access::read_write, .create = true, .length = 5});
  launch(add_one, 1, 32, byte_pointer(m), std::uint64_t(5));
  memory.synchronize();
  for (std::uint64_t const at : {0, 5}) {
    CHECK(m.acquire(at, 0, access::read_write) == 0);
    CHECK(m.prefetch_to_device(at, 0) == 0);
    CHECK(m.advise(at, 0, memory_advice::host) == 0);
    CHECK(m.sync(at, 0) == 0);
  }
  CHECK(memory.copy(m.data(), m.data(), 0) == 0);
  CHECK(memory.set(m.data(), 0, 0) == 0);
  CHECK(m.stats().writeback_pages == 0);
  CHECK(m.unmap() == 0);
  CHECK(all_of(path) == bytes(5, std::byte{1}));
}

TEST_CASE("a file of 3 GiB with holes: what is read and written is near what was changed") {
  constexpr std::uint64_t block = 64 << 10,
                          places[] = {0, gibi + 5 * page, 2 * gibi - page, 3 * gibi - page};
  constexpr std::uint64_t by_cpu = 2 * gibi + 300 * page;
  scratch_folder const folder;
  auto const path = folder / "data";
  set_size(path, 3 * gibi);
  opened_file const file(path);
  if (bytes_on_disk(file) > mebi || ::lseek(file, 0, SEEK_DATA) >= 0) {
    MESSAGE("not run: the file system has no holes");
    return;
  }
  shared_memory memory;
  mapping m = memory.map(path, {.access = access::read_write, .block = block});
  REQUIRE(m.size() == 3 * gibi);
  for (auto const at : places) {
    shared_call call;
    call.reads_writes(m, at + 7, 1);
    launch(call, add_one, 1, 32, byte_pointer(m) + at + 7, std::uint64_t(1));
  }
  byte_pointer(m)[by_cpu] = 2;
  CHECK(m.sync() == 0);
  auto const counts = m.stats();
  CHECK(counts.fill_bytes == 5 * block);
  CHECK(counts.writeback_pages == 5);
  CHECK(counts.writeback_bytes == 5 * page);
  CHECK(counts.pages_unchanged == 5 * (block / page - 1));
  CHECK(m.unmap() == 0);
  CHECK(std::filesystem::file_size(path) == 3 * gibi);
  CHECK(bytes_on_disk(file) <= mebi);
  // All that is no hole.
  std::uint64_t ones = 0, twos = 0, others = 0;
  for (off_t first = 0; (first = ::lseek(file, first, SEEK_DATA)) >= 0;) {
    off_t const end = ::lseek(file, first, SEEK_HOLE);
    auto const data = pread_bytes(path, std::uint64_t(first), std::uint64_t(end - first));
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      auto const at = std::uint64_t(first) + i;
      bool const is_one = std::ranges::any_of(places, [&](auto p) { return p + 7 == at; });
      if (is_one && data[i] == std::byte{1})
        ++ones;
      else if (at == by_cpu && data[i] == std::byte{2})
        ++twos;
      else if (data[i] != std::byte{0})
        ++others;
    }
    first = end;
  }
  CHECK(ones == 4);
  CHECK(twos == 1);
  CHECK(others == 0);
}

TEST_CASE("access write: the last bytes of a file that ends within 8 bytes may be any") {
  scratch_folder const folder;
  auto const path = folder / "data";
  for (std::uint64_t const length : {std::uint64_t(1), page + 1}) {
    for (auto const where : {memory_advice::device, memory_advice::host}) {
      for (auto const backing : {memory_backing::automatic, memory_backing::managed}) {
        for (auto const how : {write_detection::hash, write_detection::all}) {
          CAPTURE(length);
          CAPTURE(int(where));
          CAPTURE(int(backing));
          CAPTURE(int(how));
          check_last_byte(path, length, where, {.access = access::write, .backing = backing}, how);
        }
      }
    }
  }
}
