// Random sequences of file calls from many blocks and the host against a model in memory, with
// caches far smaller than the data.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using bytes = std::vector<std::byte>;

/// One file as it should be, and how it is open.
struct modelled_file {
  std::string path;
  bytes contents;
  bool exists = false;
  int fd = -1;
};

/// What a call must come to.
struct expected_call {
  std::size_t op;
  std::int64_t result;
  std::optional<bytes> delivered;
};

/// Rounds of random calls. In a round every block works in regions of the files that are its own,
/// so that the outcome is certain, and the regions are bytes apart, not pages; the round's last
/// calls, by one block or the host, are about whole files.
class random_session {
 public:
  random_session(config const& c, unsigned blocks, unsigned threads, caller_kind who)
      : config_(c),
        fs_(c),
        random_(seed()),
        blocks_(blocks),
        threads_(threads),
        who_(who),
        callers_(who == caller_kind::block ? blocks : blocks * threads / 32) {
    for (unsigned i = 0; i < 3; ++i) files_.push_back({folder_ / std::to_string(i), {}, false, -1});
    largest_ = c.cache_size * 3;
  }

  void run(unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
      CAPTURE(round);
      for (auto& f : files_) open_if_closed(f);
      calls_of_blocks();
      call_about_a_file(files_[random_() % files_.size()]);
      for (auto& f : files_)
        if (random_() % 4 == 0) close(f);
    }
    for (auto& f : files_) close(f);
    CHECK(inspect(fs_.ref()).problems == "");
    CHECK(fs_.stats().timeouts == 0);
    CHECK(fs_.unwritten().empty());
  }
  [[nodiscard]] unsigned steps() const { return steps_; }

 private:
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_() % n; }

  void open_if_closed(modelled_file& f) {
    if (f.fd > 0) return;
    int flags = O_RDWR | O_CREAT;
    bool const truncates = random_() % 4 == 0;
    if (truncates) flags |= O_TRUNC;
    f.fd = random_() % 2 == 0 ? fs_.open(f.path, flags) : open_in_kernel(fs_, f.path, flags);
    REQUIRE(f.fd > 0);
    if (truncates || !f.exists) f.contents.clear();
    f.exists = true;
    ++steps_;
  }

  void close(modelled_file& f) {
    if (f.fd <= 0) return;
    CHECK((random_() % 2 == 0 ? fs_.close(f.fd) : close_in_kernel(fs_, {f.fd}, 1)[0]) == 0);
    f.fd = -1;
    ++steps_;
    if (f.exists) CHECK(pread_bytes(f.path, 0, ~0ull) == f.contents);
  }

  void put(modelled_file& f, std::uint64_t offset, bytes const& what) {
    if (what.empty()) return;
    f.contents.resize(std::max<std::uint64_t>(f.contents.size(), offset + what.size()));
    std::copy(what.begin(), what.end(), f.contents.begin() + std::ptrdiff_t(offset));
  }

  void calls_of_blocks() {
    op_batch batch;
    std::vector<expected_call> expected;
    // Growth changes what others read near the end, so it comes from one caller, in its own region
    // behind everything else.
    for (auto& f : files_) {
      std::uint64_t const share = f.contents.size() / callers_;
      for (unsigned caller = 0; caller < callers_; ++caller) {
        bool const last = caller + 1 == callers_;
        std::uint64_t const begin = caller * share;
        std::uint64_t const end = last ? f.contents.size() : begin + share;
        for (unsigned n = 0; n < 3; ++n) {
          std::uint64_t const at = begin + below(end - begin + 1);
          std::uint64_t const most = random_() % 4 == 0   ? 3 * config_.page_size
                                     : random_() % 2 == 0 ? config_.page_size
                                                          : 60;
          if (random_() % 5 < 3) {
            bool const grows = last && n == 2 && f.contents.size() < largest_;
            std::uint64_t const from =
                grows ? f.contents.size() + (random_() % 3 == 0 ? below(2 * config_.page_size) : 0)
                      : at;
            auto const what = some_bytes(
                random_(), from, grows ? below(most + 1) : std::min(below(most + 1), end - at));
            expected.push_back(
                {batch.write(caller, f.fd, std::int64_t(from), what, unsigned(below(64))),
                 std::int64_t(what.size()),
                 {}});
            put(f, from, what);
          } else {
            std::uint64_t const count = std::min(below(most + 1), end > at ? end - at : 0);
            bytes const now(f.contents.begin() + std::ptrdiff_t(at),
                            f.contents.begin() + std::ptrdiff_t(at + count));
            expected.push_back(
                {batch.read(caller, f.fd, std::int64_t(at), count, unsigned(below(64))),
                 std::int64_t(count), now});
          }
        }
        if (random_() % 16 == 0) expected.push_back({batch.sync(caller, f.fd), 0, {}});
      }
    }
    batch.run(fs_.ref(), blocks_, threads_, who_);
    check(batch, expected);
  }

  void call_about_a_file(modelled_file& f) {
    op_batch batch;
    std::vector<expected_call> expected;
    switch (random_() % 6) {
      case 0: {
        std::uint64_t const size = below(largest_ / 2);
        expected.push_back({batch.truncate(0, f.fd, std::int64_t(size)), 0, {}});
        f.contents.resize(size);
        break;
      }
      case 1: {
        auto const what = some_bytes(random_(), 0, below(2 * config_.page_size));
        std::uint64_t const at = below(f.contents.size() + 100);
        CHECK(fs_.write(f.fd, what.data(), what.size(), std::int64_t(at)) ==
              std::int64_t(what.size()));
        put(f, at, what);
        break;
      }
      case 2:
        if (f.exists) std::filesystem::remove(f.path);  // who has it open keeps it
        f.exists = false;
        break;
      case 3: CHECK(fs_.sync(f.fd) == 0); break;
      case 4: CHECK(fs_.sync() == 0); break;
      default: break;
    }
    expected.push_back({batch.size_of(0, f.fd), std::int64_t(f.contents.size()), {}});
    expected.push_back({batch.read(0, f.fd, 0, f.contents.size() + 100),
                        std::int64_t(f.contents.size()), f.contents});
    batch.run(fs_.ref(), 1, threads_);
    check(batch, expected);
    if (!f.exists) close(f);
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
    steps_ += unsigned(batch.size());
  }

  scratch_folder folder_;
  config config_;
  filesystem fs_;
  std::mt19937_64 random_;
  unsigned blocks_, threads_;
  caller_kind who_;
  unsigned callers_;
  std::vector<modelled_file> files_;
  std::uint64_t largest_;
  unsigned steps_ = 0;
};

}  // namespace

TEST_CASE(
    "model: random calls on files by blocks, tiles and the host do what a file in memory would, "
    "for every page size") {
  CAPTURE(seed());
  struct set_up {
    std::uint64_t page, frames;
    unsigned rounds;
  };
  for (auto const& s :
       {set_up{512, 16, 30}, set_up{4096, 8, 30}, set_up{65536, 8, 10}, set_up{1u << 20, 8, 3}}) {
    CAPTURE(s.page);
    random_session blocks(small_config(s.page, s.frames), 6, 64, caller_kind::block);
    blocks.run(scaled(s.rounds, s.rounds / 3 + 1));
    random_session tiles(small_config(s.page, s.frames), 3, 64, caller_kind::tile);
    tiles.run(scaled(s.rounds, s.rounds / 3 + 1));
  }
}

TEST_CASE("model: the same with readahead and under every replacement policy, thousands of steps") {
  CAPTURE(seed());
  unsigned steps = 0;
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    for (std::uint64_t const prefetch : {std::uint64_t{12288}, prefetch_automatic}) {
      auto c = small_config(4096, 12);
      c.policy = policy;
      c.prefetch_size = prefetch;
      CAPTURE(int(policy));
      random_session session(c, 4, 96, caller_kind::block);
      session.run(scaled(30, 6));
      steps += session.steps();
    }
  }
  CHECK(steps > scaled(3000, 600));
}
