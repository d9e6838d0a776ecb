// Reads of every kind, mixed and from many blocks, against pread: for every prefetch size, page
// size and way that bytes arrive.
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

struct open_file {
  std::string path;
  std::uint64_t size;
  int fd;
};

enum class habit { sequential, strided, backward, random, overlapping };
constexpr unsigned habits = 5;

/// A reader that follows a habit for a while, then takes up another one, sometimes in another file.
class reader {
 public:
  void add_read(read_batch& batch, std::mt19937_64& random, std::vector<open_file> const& files,
                std::uint64_t page, reader const& neighbour) {
    if (left_ == 0) {
      left_ = 1 + random() % 12;
      habit_ = habit(random() % habits);
      file_ = random() % files.size();
      at_ = random() % (files[file_].size + 1);
      stride_ = random() % (4 * page) + 1;
      piece_ = random() % 4 == 0 ? page : random() % (2 * page) + 1;
      if (habit_ == habit::overlapping) {
        file_ = neighbour.file_;
        at_ = neighbour.at_;
      }
    }
    --left_;
    auto const& file = files[file_];
    batch.add(file.fd, file.path, std::int64_t(at_), piece_, unsigned(random() % 64));
    switch (habit_) {
      case habit::sequential: at_ += piece_; break;
      case habit::strided: at_ += stride_; break;
      case habit::backward: at_ -= piece_ < at_ ? piece_ : at_; break;
      case habit::random: at_ = random() % (file.size + page); break;
      case habit::overlapping: at_ += piece_ / 2; break;
    }
    if (at_ > file.size + page) at_ = 0;
  }

 private:
  std::uint64_t left_ = 0;
  habit habit_ = habit::sequential;
  std::size_t file_ = 0;
  std::uint64_t at_ = 0, stride_ = 1, piece_ = 1;
};

void compare(config const& c, unsigned blocks, caller_kind who, unsigned ops) {
  scratch_folder folder;
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  CAPTURE(c.page_size);
  CAPTURE(c.prefetch_size);
  CAPTURE(c.prefetch_depth);
  CAPTURE(int(c.path));
  CAPTURE(int(who));
  filesystem fs(c);
  std::vector<open_file> files;
  for (std::uint64_t const size : {3 * c.cache_size + 1234, c.cache_size, c.page_size + 1}) {
    auto const path = make_file(folder, std::to_string(files.size()), size, size + 1);
    files.push_back({path, size, fs.open(path, O_RDONLY)});
    REQUIRE(files.back().fd > 0);
  }
  unsigned const callers = who == caller_kind::block ? blocks : 2 * blocks;
  std::vector<reader> readers(callers);
  read_batch batch;
  for (unsigned i = 0; i < ops; ++i)
    readers[i % callers].add_read(batch, random, files, c.page_size, readers[(i + 1) % callers]);
  check_twice(fs, batch, blocks, 64, who);
}

}  // namespace

TEST_CASE(
    "prefetch differential: mixed reads of many blocks equal pread for every prefetch size, page "
    "size and path") {
  struct {
    std::uint64_t page, frames;
    unsigned ops;
  } const sizes[] = {{512, 64, 400}, {4 * kibi, 32, 300}, {64 * kibi, 24, 100}};
  for (auto const path : built_paths) {
    for (auto const& s : sizes) {
      for (std::uint64_t const prefetch :
           {std::uint64_t{0}, s.page, 60 * kibi, mebi, prefetch_automatic}) {
        if (prefetch != prefetch_automatic && prefetch % s.page != 0) continue;
        auto c = small_config(s.page, s.frames);
        c.path = path;
        c.prefetch_size = prefetch;
        c.prefetch_memory = 16 * mebi;
        c.staging_size = 4 * mebi;
        c.prefetch_depth = 2;
        compare(c, 6, caller_kind::block, scaled(s.ops, s.ops / 4));
        compare(c, 3, caller_kind::tile, scaled(s.ops / 2, s.ops / 8));
      }
    }
  }
}

TEST_CASE(
    "prefetch differential: too few buffers, too few seats and other policies change nothing about "
    "the bytes") {
  for (auto const path : built_paths) {
    for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
      for (std::uint64_t const prefetch : {28 * kibi, prefetch_automatic}) {
        auto c = small_config(4 * kibi, 40);
        c.path = path;
        c.policy = policy;
        c.prefetch_size = prefetch;
        c.prefetch_memory = 512 * kibi;  // 16 chunks or fewer, for all
        c.prefetch_depth = 5;
        c.seats = 3;
        compare(c, 8, caller_kind::block, scaled(240, 80));
      }
    }
  }
}
