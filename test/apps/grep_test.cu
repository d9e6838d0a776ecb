// gpufs-grep's kernel against a plain count on the host: words on every kind of border.
#include <gpufs/gpufs.hpp>

#include <apps/common/generator.hpp>
#include <apps/gpufs-grep/grep_kernel.hpp>
#include <apps/gpufs-grep/reference.hpp>
#include <apps/gpufs-grep/verify.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::apps;

namespace {

search_word word_of(std::string const& text) {
  search_word w;
  w.length = static_cast<unsigned>(text.size());
  std::ranges::copy(text, w.bytes);
  return w;
}

config small_config() { return test::small_config(4096, 64); }

/// Matching lines of a file, counted by the kernel in ranges of `range_bytes`; or -errno.
std::int64_t count_on_device(filesystem& fs, std::string const& path, std::uint64_t size,
                             std::string const& word, std::uint64_t range_bytes,
                             std::uint64_t chunk_bytes, unsigned threads) {
  constexpr unsigned blocks = 3;
  std::vector<grep_range> ranges;
  for (std::uint64_t at = 0; at < size || at == 0; at += range_bytes) {
    ranges.push_back({0, at, at + range_bytes < size ? at + range_bytes : ~0ull});
  }
  buffer<grep_range> device_ranges(ranges.size());
  device_ranges.copy_from_host(ranges.data(), ranges.size());
  buffer<char> paths(path.size() + 1);
  paths.copy_from_host(path.c_str(), path.size() + 1);
  buffer<std::int64_t> results(ranges.size());
  buffer<std::uint64_t> next(1);
  next.fill_zero();
  pinned_buffer<std::uint64_t> finished(blocks);
  finished.fill_zero();
  buffer<char> windows(blocks * (front_bytes + chunk_bytes));

  grep_job job;
  job.range = device_ranges.data();
  job.ranges = ranges.size();
  job.paths = paths.data();
  job.results = results.data();
  job.next = next.data();
  job.finished = finished.data();
  job.windows = windows.data();
  job.chunk_bytes = chunk_bytes;
  job.word = word_of(word);
  launch(grep_kernel, blocks, threads, fs.ref(), job);
  synchronize();

  std::vector<std::int64_t> packed(ranges.size());
  results.copy_to_host(packed.data(), packed.size());
  line_state all;
  for (std::int64_t const p : packed) {
    if (p < 0) return p;
    all = all.then(line_state::unpacked(static_cast<std::uint64_t>(p)));
  }
  std::uint64_t done = 0;
  for (auto const f : finished) done += f;
  CHECK(done >= (ranges.size() + blocks - 1) / blocks);
  return static_cast<std::int64_t>(all.lines());
}

void check_equal(std::string const& text, std::string const& word,
                 std::uint64_t range_bytes = ~0ull >> 1, unsigned threads = 64) {
  test::scratch_folder const folder;
  std::string const path = folder / "text";
  std::ofstream(path, std::ios::binary) << text;
  filesystem fs(small_config());
  CAPTURE(text.substr(0, 60));
  CAPTURE(text.size());
  CAPTURE(word);
  CAPTURE(range_bytes);
  CHECK(count_on_device(fs, path, text.size(), word, range_bytes, 512, threads) ==
        static_cast<std::int64_t>(count_lines(text, word)));
}

}  // namespace

TEST_CASE("line_state: stretches put together in any grouping count the same lines") {
  auto const state_of = [](std::string const& text) {
    line_state s;
    bool matched = false;
    for (char const c : text) {
      if (c != '\n') {
        matched = matched || c == 'x';
      } else {
        if (s.split)
          s.count += matched ? 1 : 0;
        else
          s.split = true, s.head = matched;
        matched = false;
      }
    }
    (s.split ? s.tail : s.head) = matched;
    return s;
  };
  std::string const text = "x\n\nxx\na\nx a x\n\nax";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    for (std::size_t j = i; j <= text.size(); ++j) {
      line_state const a = state_of(text.substr(0, i)), b = state_of(text.substr(i, j - i)),
                       c = state_of(text.substr(j));
      CHECK(a.then(b).then(c).lines() == 4);
      CHECK(a.then(b.then(c)).packed() == a.then(b).then(c).packed());
      CHECK(line_state::unpacked(b.packed()).packed() == b.packed());
    }
  }
}

TEST_CASE("grep kernel: a line counts once, a word only between bytes that belong to none") {
  for (std::string const text : {"",
                                 "\n",
                                 "ab",
                                 "ab\n",
                                 "xab",
                                 "abx",
                                 "_ab",
                                 "ab_",
                                 "ab1",
                                 "(ab)",
                                 "ab ab ab\nab\n",
                                 "xab ab",
                                 "abab",
                                 "ab\n\n\nab",
                                 "\nab",
                                 "AB",
                                 "a b",
                                 "a",
                                 "b",
                                 "ab\r\nab\r\n",
                                 "\xe4"
                                 "ab\xe4\n"}) {
    check_equal(text, "ab");
  }
  std::string const nul =
      std::string("ab\0x\n", 5) + std::string("\0ab\0\n", 5) + std::string("a\0b\n", 4);
  check_equal(nul, "ab");
}

TEST_CASE("grep kernel: occurrences that overlap are all tried") {
  check_equal("xa.a.a\n", "a.a");
  check_equal("a.a.ax\n", "a.a");
  check_equal("xa.a.ax\n", "a.a");
  check_equal("a+ +a\n++\n", "+");
  check_equal("....\n", "..");
}

TEST_CASE("grep kernel: words on borders of chunks and ranges are found, and once") {
  // Chunks have 512 bytes here; the word slides over the first border and the second one.
  for (std::string const& word : {std::string("w"), std::string("word"), std::string(255, 'w')}) {
    for (std::size_t const border : {512u, 1024u}) {
      for (std::size_t before = 0; before <= word.size() + 1;
           before += word.size() > 100 ? 15 : 1) {
        std::string text(border - before, '.');
        text += word + " " + word + "\n." + word;
        check_equal(text, word);
        check_equal(text, word, 512);
      }
    }
  }
}

TEST_CASE(
    "grep kernel: random text of few letters gives the host's count, whatever the ranges and "
    "threads") {
  std::uint64_t const seed = test::seed();
  std::uint64_t draw = 0;
  auto const below = [&](std::uint64_t n) { return generate_below(seed, draw++, n); };
  for (int round = 0; round < 12; ++round) {
    std::string text(below(6000), ' ');
    std::string const letters = round % 2 == 0 ? "ab.\n" : "aaab_ .....\n";
    for (char& c : text) c = letters[below(letters.size())];
    std::string word(1 + below(3), ' ');
    for (char& c : word) c = letters[below(letters.size() - 1)];
    check_equal(text, word, 1 + below(3000), 32 * static_cast<unsigned>(1 + below(4)));
  }
}

TEST_CASE("grep kernel: a file that cannot be opened gives -errno") {
  filesystem fs(small_config());
  CHECK(count_on_device(fs, "/nonexistent/file", 1, "a", 100, 512, 32) == -ENOENT);
  CHECK(count_on_device(fs, "/", 1, "a", 100, 512, 32) == -EISDIR);
}

TEST_CASE("verify_counts: counts in windows of any size, and tells what it could not read") {
  test::scratch_folder const folder;
  std::string const text = "a word\n\nwords in a line that is longer than windows\nword\n" +
                           std::string(300, 'x') + " word\nat the end, a word";
  std::vector<listed_file> files;
  for (auto const* const name : {"right", "wrong", "unread", "none", "folder"})
    files.push_back({folder / name, text.size()});
  for (int i = 0; i < 3; ++i) std::ofstream(files[std::size_t(i)].path, std::ios::binary) << text;
  std::filesystem::create_directory(files[4].path);
  auto const right = static_cast<std::int64_t>(count_lines(text, "word"));
  CHECK(right == 4);
  for (std::size_t const window : {1, 7, 64, 1 << 20}) {
    CAPTURE(window);
    auto const v = verify_counts(files, {right, right + 1, -13, right, right}, "word", window);
    CHECK(!v.passed());
    REQUIRE(v.wrong.size() == 1);
    CHECK(v.wrong[0].file == 1);
    CHECK(v.wrong[0].on_host == std::uint64_t(right));
    CHECK(v.compared == 2);
    REQUIRE(v.unverified.size() == 2);
    CHECK(v.unverified[0].file == 3);
    CHECK(v.unverified[0].why == "No such file or directory");
    CHECK(v.unverified[1].why == "must be a regular file");
  }
  CHECK(verify_counts({files[0]}, {right}, "word").passed());
}
