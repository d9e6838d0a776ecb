// Files behind objects that others use meanwhile: they take the name away, write to them from
// another process, by gwrite, or end the writer at any moment.
#include <gpufs/gpufs.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>
#include <test/support/child.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096, page_words = page / sizeof(std::uint32_t);

/// Each word of the pages first, first + 2, ... adds its neighbour's in the other pages, times 3,
/// and `salt`.
__device__ __host__ void mix_word(std::uint32_t* all, std::uint64_t i, std::uint64_t first,
                                  std::uint32_t salt) {
  auto const pair = i / page_words * 2, in_page = i % page_words;
  all[(pair + first) * page_words + in_page] +=
      all[(pair + 1 - first) * page_words + in_page] * 3 + salt;
}
__global__ void mix_pages(std::uint32_t* all, std::uint64_t pairs, std::uint64_t first,
                          std::uint32_t salt) {
  for (auto i = thread_number(); i < pairs * page_words; i += thread_count())
    mix_word(all, i, first, salt);
}
void mix_by_cpu(std::uint32_t* all, std::uint64_t pairs, std::uint64_t first, std::uint32_t salt) {
  for (std::uint64_t i = 0; i < pairs * page_words; ++i) mix_word(all, i, first, salt);
}

bool is_equal(mapping const& m, words const& all) {
  return m.size() == all.size() * sizeof all[0] && std::memcmp(m.data(), all.data(), m.size()) == 0;
}

/// A descriptor of a file, whatever becomes of its name.
class opened_file {
 public:
  explicit opened_file(std::string const& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
  }
  ~opened_file() { ::close(fd_); }
  opened_file(opened_file const&) = delete;
  opened_file& operator=(opened_file const&) = delete;

  [[nodiscard]] words content() const {
    words all(std::uint64_t(::lseek(fd_, 0, SEEK_END)) / sizeof(std::uint32_t));
    auto const bytes = all.size() * sizeof all[0];
    CHECK(::pread(fd_, all.data(), bytes, 0) == std::int64_t(bytes));
    return all;
  }
  void write(std::uint32_t word, std::uint64_t index) const {
    CHECK(::pwrite(fd_, &word, sizeof word, off_t(index * sizeof word)) == sizeof word);
  }

 private:
  int fd_;
};

/// A number that processes pass to each other: the size of a file.
void tell(std::string const& path, std::uint64_t number) { set_size(path + ".told", number); }
std::uint64_t told(std::string const& path) {
  std::error_code none;
  auto const size = std::filesystem::file_size(path + ".told", none);
  return none ? 0 : size;
}

constexpr unsigned turns = 12;
constexpr std::uint64_t pairs_of_pages = 40;

/// Process `who` of two changes its pages in each second turn, by what the other has made of its
/// own. `is_there`: whether the other is.
template <class Condition>
void take_turns(std::string const& path, unsigned who, Condition const& is_there) {
  shared_memory memory;
  mapping m = memory.map(path, {.access = access::read_write});
  for (unsigned turn = who; turn < turns; turn += 2) {
    wait_until([&] { return told(path) == turn || !is_there(); }, "the other's turn is over");
    REQUIRE(told(path) == turn);
    CHECK(m.refresh() == 0);
    if (turn % 4 < 2)
      launch(mix_pages, 2, 64, m.as<std::uint32_t>(), pairs_of_pages, std::uint64_t(who), turn);
    else
      mix_by_cpu(m.as<std::uint32_t>(), pairs_of_pages, who, turn);
    CHECK(m.sync() == 0);
    CHECK(m.stats().writeback_pages == (turn / 2 + 1) * pairs_of_pages);
    tell(path, turn + 1);
  }
  CHECK(m.unmap() == 0);
}

constexpr std::uint64_t killed_words = 9 * mebi / sizeof(std::uint32_t);

/// All words become 1, are written back, become 2, and so on. Tells which is in the file.
void count_and_write(std::string const& path, map_options const& options) {
  // Looks for no changes, so that it is writing most of the time.
  mapping_config settings;
  settings.detect_writes = write_detection::all;
  shared_memory memory(settings);
  mapping m = memory.map(path, options);
  auto* const all = m.as<std::uint32_t>();
  constexpr std::uint64_t by_kernel = killed_words / 32;
  for (std::uint32_t round = 1;; ++round) {
    std::fill(all + by_kernel, all + killed_words, round);
    launch(store_to_all, 1, 32, all, by_kernel, round);
    REQUIRE((round % 4 == 0 ? m.sync() : m.write_back()) == 0);
    tell(path, round);
  }
}

/// How many pages have words that differ, or another than `least` or `least` + 1.
std::uint64_t wrong_pages(words const& all, std::uint64_t least) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < all.size(); i += page_words) {
    bool const is_whole =
        std::all_of(&all[i], &all[i] + page_words, [&](std::uint32_t w) { return w == all[i]; });
    wrong += is_whole && (all[i] == least || all[i] == least + 1) ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("a file without a name, and one whose name went to another: the mapped one is used") {
  for (bool const is_replaced : {false, true}) {
    CAPTURE(is_replaced);
    auto content = numbers(40 * page_words);
    words const others(7, 3);
    named_file const file(content), next(others);
    opened_file const mapped(file.path());
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::read_write, .eager = false});
    if (is_replaced)
      std::filesystem::rename(next.path(), file.path());
    else
      std::filesystem::remove(file.path());
    mix_by_cpu(content.data(), 20, 0, 5);
    launch(mix_pages, 2, 64, m.as<std::uint32_t>(), std::uint64_t(20), std::uint64_t(0), 5u);
    memory.synchronize();
    m.as<std::uint32_t>()[1] = content[1] = 77;
    CHECK(m.sync() == 0);
    CHECK(mapped.content() == content);
    mapped.write(content[9] = 4, 9);
    CHECK(m.refresh() == 0);
    CHECK(is_equal(m, content));
    REQUIRE(m.remap(access::read) == 0);
    CHECK(is_equal(m, content));
    REQUIRE(m.remap(access::read_write) == 0);
    mix_by_cpu(content.data(), 20, 1, 6);
    launch(mix_pages, 2, 64, m.as<std::uint32_t>(), std::uint64_t(20), std::uint64_t(1), 6u);
    if (is_replaced) {
      // It is another file, so it may have a writable object, too.
      mapping other = memory.map(file.path(), {.access = access::read_write});
      CHECK(is_equal(other, others));
      CHECK(other.unmap() == 0);
    }
    CHECK(m.unmap() == 0);
    CHECK(mapped.content() == content);
    CHECK(std::filesystem::exists(file.path()) == is_replaced);
    if (is_replaced) CHECK(file.content() == others);
  }
}

TEST_CASE("child: takes turns") {
  if (!is_part("takes turns")) return;
  auto const parent = ::getppid();
  take_turns(given_path(), 1, [&] { return ::getppid() == parent; });
}

TEST_CASE("two processes change different pages of a file in turns, and see each other's") {
  auto content = numbers(2 * pairs_of_pages * page_words);
  named_file const file(content);
  child other("takes turns", file.path());
  take_turns(file.path(), 0, [&] { return other.running(); });
  CHECK(other.succeeds());
  for (unsigned turn = 0; turn < turns; ++turn)
    mix_by_cpu(content.data(), pairs_of_pages, turn % 2, turn);
  CHECK(file.content() == content);
}

TEST_CASE("gread sees what an object has written back, and the object what gwrite has written") {
  constexpr std::uint64_t pairs = 24;
  auto content = numbers(2 * pairs * page_words);
  auto const size = content.size() * sizeof content[0];
  named_file const file(content);
  filesystem fs(small_config(page, 64));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  for (unsigned round = 0; round < 4; ++round) {
    CAPTURE(round);
    launch(mix_pages, 2, 64, m.as<std::uint32_t>(), pairs, std::uint64_t(round % 2), round);
    mix_by_cpu(content.data(), pairs, round % 2, round);
    CHECK(m.write_back() == 0);
    int const fd = fs.open(file.path(), O_RDWR);
    REQUIRE(fd >= 0);
    auto const at = 5 * page + 100 * round, bytes = 3 * page;
    auto const given = some_bytes(round, at, bytes);
    op_batch calls;
    auto const seen = calls.read(0, fd, 0, size);
    calls.write(0, fd, std::int64_t(at), given);
    calls.close(0, fd);
    calls.run(fs.ref(), 1, 64);
    auto const got = calls.bytes(seen);
    REQUIRE(got.size() == size);
    CHECK(std::memcmp(got.data(), content.data(), size) == 0);
    // The kernel that has called gwrite declared nothing, so it may have changed the object.
    auto const before = m.stats().writeback_pages;
    CHECK(m.write_back() == 0);
    CHECK(m.stats().writeback_pages == before);
    CHECK(m.refresh() == 0);
    std::memcpy(reinterpret_cast<std::byte*>(content.data()) + at, given.data(), bytes);
    CHECK(is_equal(m, content));
  }
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("child: counts and writes back") {
  if (is_part("counts and writes back"))
    count_and_write(given_path(), {.access = access::read_write});
}
TEST_CASE("child: counts and writes back what it only writes") {
  if (is_part("counts and writes back what it only writes"))
    count_and_write(given_path(), {.access = access::write});
}

TEST_CASE("a process that is killed leaves each page as written back, or as the next time") {
  std::mt19937_64 random(seed());
  for (unsigned again = 0; again < scaled(16, 2); ++again) {
    CAPTURE(again);
    named_file const file(words(killed_words, 0));
    child writer(
        again % 2 == 0 ? "counts and writes back" : "counts and writes back what it only writes",
        file.path());
    auto const rounds = 1 + random() % 12;
    wait_until([&] { return told(file.path()) >= rounds || !writer.running(); }, "it has written");
    for (auto more = random() % 10000; more != 0; --more) ::sched_yield();
    REQUIRE(writer.running());
    writer.kill(SIGKILL);
    CHECK(WIFSIGNALED(writer.wait()));
    auto const content = file.content();
    CHECK(content.size() == killed_words);
    CHECK(wrong_pages(content, told(file.path())) == 0);
  }
}
