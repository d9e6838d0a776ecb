// Random reads and writes of block files by kernels and the host, against a vector of bytes. Caches
// are far smaller than the data, and most writes cover parts of blocks.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using bytes = std::vector<std::byte>;

struct expected_call {
  std::size_t op;
  std::int64_t result;
  std::optional<bytes> delivered;
};

/// Rounds of random calls. In a round each caller works in a part of the file that is its own, so
/// that the outcome is certain. Parts are bytes apart, so callers share blocks.
class block_session {
 public:
  block_session(config const& c, nvme::software_options const& options, unsigned blocks,
                caller_kind who)
      : page_(c.page_size),
        fs_(c),
        random_(seed()),
        blocks_(blocks),
        callers_(who == caller_kind::block ? blocks : blocks * threads / 32),
        who_(who) {
    fs_.attach("disk", options);
    fd_ = fs_.open("nvme:disk", O_RDWR);
    REQUIRE(fd_ > 0);
    file_status status{};
    REQUIRE(fs_.stat(fd_, status) == 0);
    contents_.resize(status.size);
    REQUIRE(fs_.read(fd_, contents_.data(), contents_.size(), 0) == std::int64_t(contents_.size()));
  }

  /// Returns the file's bytes after the last round. The file is detached.
  bytes run(unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
      CAPTURE(round);
      calls_of_blocks();
      write_from_host();
      if (random_() % 4 == 0) reopen();
    }
    read_all();
    CHECK(fs_.close(fd_) == 0);
    CHECK(inspect(fs_.ref()).problems == "");
    CHECK(fs_.stats().timeouts == 0);
    auto const s = fs_.attachment_stats("disk");
    CHECK(s.commands > 0);
    CHECK(s.errors.empty());
    CHECK(s.strays == 0);
    CHECK(s.resets == 0);
    CHECK(fs_.detach("disk") == 0);
    return contents_;
  }

 private:
  static constexpr unsigned threads = 64;

  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_() % n; }

  void calls_of_blocks() {
    op_batch batch;
    std::vector<expected_call> expected;
    std::uint64_t const share = contents_.size() / callers_;
    for (unsigned caller = 0; caller < callers_; ++caller) {
      std::uint64_t const begin = caller * share;
      std::uint64_t const end = caller + 1 == callers_ ? contents_.size() : begin + share;
      for (unsigned n = 0; n < 4; ++n) {
        std::uint64_t const at = begin + below(end - begin);
        std::uint64_t const most = random_() % 4 == 0 ? 5 * page_ : random_() % 2 == 0 ? page_ : 60;
        std::uint64_t const count = std::min(1 + below(most), end - at);
        auto const from = contents_.begin() + std::ptrdiff_t(at);
        if (random_() % 2 == 0) {
          auto const what = some_bytes(random_(), at, count);
          std::copy(what.begin(), what.end(), from);
          expected.push_back({batch.write(caller, fd_, std::int64_t(at), what, unsigned(below(64))),
                              std::int64_t(count),
                              {}});
        } else {
          expected.push_back({batch.read(caller, fd_, std::int64_t(at), count, unsigned(below(64))),
                              std::int64_t(count), bytes(from, from + std::ptrdiff_t(count))});
        }
      }
      if (random_() % 8 == 0) expected.push_back({batch.sync(caller, fd_), 0, {}});
    }
    batch.run(fs_.ref(), blocks_, threads, who_);
    check(batch, expected);
  }

  void write_from_host() {
    if (random_() % 2 == 0) return;
    std::uint64_t const at = below(contents_.size());
    auto const what =
        some_bytes(random_(), at, std::min(below(3 * page_) + 1, contents_.size() - at));
    CHECK(fs_.write(fd_, what.data(), what.size(), std::int64_t(at)) == std::int64_t(what.size()));
    std::copy(what.begin(), what.end(), contents_.begin() + std::ptrdiff_t(at));
  }

  void reopen() {
    CHECK(fs_.close(fd_) == 0);
    fd_ = fs_.open("nvme:disk", O_RDWR);
    REQUIRE(fd_ > 0);
  }

  void read_all() {
    op_batch batch;
    std::vector<expected_call> const expected{
        {batch.read(0, fd_, 0, contents_.size() + 100), std::int64_t(contents_.size()), contents_},
        {batch.size_of(0, fd_), std::int64_t(contents_.size()), {}}};
    batch.run(fs_.ref(), 1, threads);
    check(batch, expected);
  }

  void check(op_batch const& batch, std::vector<expected_call> const& expected) {
    std::size_t wrong = 0;
    for (auto const& e : expected) {
      bool const right =
          batch.result(e.op) == e.result && (!e.delivered || batch.bytes(e.op) == *e.delivered);
      if (!right && wrong++ == 0) {
        CHECK(batch.result(e.op) == e.result);
        if (e.delivered) CHECK(batch.bytes(e.op) == *e.delivered);
      }
    }
    CHECK(wrong == 0);
  }

  std::uint64_t page_;
  filesystem fs_;
  std::mt19937_64 random_;
  unsigned blocks_;
  unsigned callers_;
  caller_kind who_;
  int fd_ = -1;
  bytes contents_;
};

/// Members of different sizes, the smallest `size`.
nvme::software_options members_of(scratch_folder const& folder, unsigned count, std::uint64_t size,
                                  unsigned lba) {
  nvme::software_options o;
  for (unsigned i = 0; i < count; ++i)
    o.members.push_back(
        make_file(folder, std::to_string(count) + "-" + std::to_string(i), size + i * 12288, 1));
  o.lba = lba;
  o.threads = 1;
  return o;
}

}  // namespace

TEST_CASE("block file model: one member in memory, parts of blocks, blocks and tiles") {
  CAPTURE(seed());
  for (unsigned const lba : {512u, 4096u}) {
    CAPTURE(lba);
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      nvme::software_options o;
      o.memory = 256 << 10;
      o.lba = lba;
      block_session session(small_config(4096, 12), o, 4, who);
      session.run(scaled(20, 4));
    }
  }
}

TEST_CASE("block file model: stripes lie where the layout says, on files whose sizes differ") {
  CAPTURE(seed());
  constexpr std::uint64_t stripe = 8192, size = 10 * stripe + 4096;
  for (unsigned const lba : {512u, 4096u}) {
    CAPTURE(lba);
    scratch_folder folder;
    auto o = members_of(folder, 3, size, lba);
    o.stripe = stripe;
    auto const seen =
        block_session(small_config(4096, 8), o, 4, caller_kind::block).run(scaled(20, 4));
    REQUIRE(seen.size() == 30 * stripe);
    for (std::uint64_t s = 0; s < 30; ++s) {
      CAPTURE(s);
      auto const from = seen.begin() + std::ptrdiff_t(s * stripe);
      CHECK(pread_bytes(o.members[s % 3], s / 3 * stripe, stripe) == bytes(from, from + stripe));
    }
  }
}

TEST_CASE("block file model: replicas are equal after every close") {
  CAPTURE(seed());
  constexpr std::uint64_t size = 25 * 4096;
  for (unsigned const lba : {512u, 4096u}) {
    CAPTURE(lba);
    scratch_folder folder;
    auto o = members_of(folder, 2, size, lba);
    o.how = nvme::layout::replicated;
    auto const seen =
        block_session(small_config(4096, 8), o, 3, caller_kind::tile).run(scaled(20, 4));
    REQUIRE(seen.size() == size);
    for (auto const& member : o.members) CHECK(pread_bytes(member, 0, size) == seen);
  }
}
