// The file registry under many threads: opens, changes and closes of the same and of other files,
// checked against a model of versions; free places and the log of closes alone.
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/engine/local_files.hpp>
#include <host-daemon/files/close_log.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/files/free_places.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/harness.hpp>
#include <test/support/descriptors.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

using namespace gpufs::daemon;
using namespace gpufs::test;
namespace rpc = gpufs::rpc;

namespace {

// Calls work(number) in `count` threads and waits for them.
void in_threads(unsigned count, std::function<void(unsigned)> const& work) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) threads.emplace_back(work, t);
  for (auto& t : threads) t.join();
}

std::uint64_t inode_of(int fd) {
  struct ::stat s {};
  return ::fstat(fd, &s) == 0 ? s.st_ino : 0;
}

// Truncates as a caller that keeps out all writers.
std::int32_t truncated(file_registry& registry, int fd, std::uint64_t size) {
  truncation t{size};
  for (;;) {
    auto const result = registry.truncate(fd, t);
    if (result != rpc::other_gate_needed) return result;
    t.kept_out = t.write_index;
  }
}

// Files whose stamps are counters: others change file n by raising changes[n]. Its size is 1000 +
// that number.
struct model_files {
  explicit model_files(unsigned count) : changes(count) {
    for (unsigned i = 0; i < count; ++i) {
      paths.push_back(folder / std::to_string(i));
      write_range(paths.back(), 0, 0, 1);
      struct ::stat s {};
      REQUIRE(::stat(paths.back().c_str(), &s) == 0);
      inodes.push_back(s.st_ino);
      numbers[s.st_ino] = i;
    }
  }
  [[nodiscard]] registry_settings settings() const {
    auto made = settled();
    made.stat = [this](int fd, struct ::stat& out) {
      if (::fstat(fd, &out) != 0) return -1;
      auto const stamp = changes[numbers.at(out.st_ino)].load();
      out.st_size = 1000 + std::int64_t(stamp);
      out.st_mtim = out.st_ctim = {.tv_sec = 1, .tv_nsec = std::int64_t(stamp)};
      return 0;
    };
    return made;
  }

  scratch_folder folder;
  std::vector<std::string> paths;
  std::vector<std::uint64_t> inodes;
  std::unordered_map<std::uint64_t, unsigned> numbers;
  std::vector<std::atomic<std::uint64_t>> changes;
};

// What one open saw. The file's changes were numbered `before` when the open began, and `after`
// when its version had been read.
struct sight {
  unsigned file = 0;
  std::uint64_t before = 0, after = 0, version = 0;
};

// The contents of a file between two changes have one version, and no other contents have it.
void check_versions(std::vector<sight> const& all) {
  using contents = std::pair<unsigned, std::uint64_t>;  // a file and the number of its last change
  std::map<contents, std::uint64_t> version_of;
  std::map<std::uint64_t, contents> contents_of;
  int changed = 0, shared = 0, impossible = 0;
  for (auto const& s : all) {
    if (s.before != s.after) continue;
    contents const seen{s.file, s.before};
    changed += version_of.try_emplace(seen, s.version).first->second == s.version ? 0 : 1;
    shared += contents_of.try_emplace(s.version, seen).first->second == seen ? 0 : 1;
  }
  for (auto const& s : all) {
    auto const found = contents_of.find(s.version);
    if (found == contents_of.end()) continue;
    auto const [file, change] = found->second;
    impossible += file == s.file && s.before <= change && change <= s.after ? 0 : 1;
  }
  CHECK_MESSAGE(changed == 0, "contents that stayed got another version");
  CHECK_MESSAGE(shared == 0, "different contents had one version");
  CHECK_MESSAGE(impossible == 0, "an open saw contents from before it, or of another file");
}

struct quiet_engine final : io_engine {
  int attach() override { return 0; }
  std::size_t room() const override { return 1; }
  std::optional<std::int64_t> submit(read_operation const&) override { return 0; }
  std::size_t poll(std::span<read_result>) override { return 0; }
  void wait(std::chrono::microseconds) override {}
  void forget(local_file&) override {}
};

// The last descriptor that each thread opened, with the file's number.
using shown_descriptors = std::vector<std::atomic<std::uint64_t>>;

// Uses what others have open, as a daemon thread does. Returns the number of wrong answers.
int use_shown(file_registry& registry, model_files const& files, shown_descriptors const& shown,
              std::atomic<bool> const& over, std::uint64_t seed) {
  quiet_engine engine;
  local_files local{registry, engine};
  std::mt19937_64 random{seed};
  int wrong = 0;
  std::deque<local_file*> used;
  while (!over.load()) {
    local.refresh();
    auto const word = shown[random() % shown.size()].load();
    if (word == 0) continue;
    auto* const file = local.use(std::int32_t(word & 0xffffffff));
    if (file != nullptr) {
      wrong += inode_of(file->host->read_descriptor()) == files.inodes[word >> 32] ? 0 : 1;
      used.push_back(file);
    }
    if (!used.empty() && (used.size() > 3 || random() % 4 == 0)) {
      local.done(used.front());
      used.pop_front();
    }
  }
  for (auto* const file : used) local.done(file);
  local.refresh();  // no close is under way
  return wrong;
}

}  // namespace

TEST_CASE("registry race: places that are free come back in order, and to one thread at a time") {
  constexpr std::uint32_t count = 5;
  free_places places{count};
  for (std::uint32_t i = 0; i < count; ++i) CHECK(places.take() == i);
  CHECK(places.take() == std::nullopt);
  CHECK(places.size() == 0);
  for (std::uint32_t const i : {3, 0, 4, 1, 2}) places.give(i);
  for (std::uint32_t const i : {3, 0, 4, 1, 2}) {
    CHECK(places.take() == i);
    places.give(i);
  }
  std::atomic<int> wrong{0};
  std::vector<std::uint64_t> plain(count);  // a place orders its users
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::atomic<int>> users(count);
  in_threads(4, [&](unsigned t) {
    std::vector<std::uint32_t> mine;
    for (unsigned i = 0; i < scaled(60'000, 8'000); ++i) {
      if (mine.size() > t % 3 || (i % 7 == 0 && !mine.empty())) {
        if (users[mine.back()].fetch_sub(1, std::memory_order_relaxed) != 1) ++wrong;
        places.give(mine.back());
        mine.pop_back();
      }
      auto const place = places.take();
      if (places.size() > count) ++wrong;
      if (!place) continue;
      if (*place >= count || users[*place].fetch_add(1, std::memory_order_relaxed) != 0) ++wrong;
      ++plain[*place];
      taken.fetch_add(1, std::memory_order_relaxed);
      mine.push_back(*place);
    }
    for (auto const place : mine) {
      users[place].fetch_sub(1, std::memory_order_relaxed);
      places.give(place);
    }
  });
  CHECK(wrong == 0);
  CHECK(places.size() == count);
  std::uint64_t sum = 0;
  for (auto const n : plain) sum += n;
  CHECK(sum == taken);
  std::set<std::uint32_t> all;
  for (std::uint32_t i = 0; i < count; ++i) all.insert(places.take().value_or(count));
  CHECK(all.size() == count);
  CHECK(*all.rbegin() == count - 1);
}

TEST_CASE("registry race: a reader of the log finds each close, or learns that it lost some") {
  auto const log = std::make_unique<close_log>();
  constexpr unsigned writers = 3;
  unsigned const each = scaled(30'000, 5'000);
  std::vector<std::vector<int>> seen(2, std::vector<int>(std::size_t(writers) * each + 1));
  std::vector<std::uint64_t> found(2), skipped(2);
  in_threads(writers + 2, [&](unsigned t) {
    if (t < writers) {
      for (unsigned i = 0; i < each; ++i) log->note(std::int32_t(t * each + i + 1));
      return;
    }
    auto const reader = t - writers;
    for (std::uint64_t n = 0; n < std::uint64_t(writers) * each;) {
      auto const count = log->count();
      if (n == count) continue;
      auto const descriptor = log->descriptor(n);
      if (descriptor == close_log::not_yet) continue;
      if (descriptor == close_log::lost) {
        skipped[reader] += count - n;
        n = count;
        continue;
      }
      ++seen[reader][std::size_t(descriptor)];
      ++found[reader];
      ++n;
    }
  });
  CHECK(log->count() == std::uint64_t(writers) * each);
  for (unsigned reader = 0; reader < 2; ++reader) {
    CHECK(found[reader] + skipped[reader] == std::uint64_t(writers) * each);
    CHECK(std::ranges::count_if(seen[reader], [](int n) { return n > 1; }) == 0);
  }
  // At rest the last lap is there in full.
  std::set<std::int32_t> last;
  for (auto n = log->count() - close_log::length; n != log->count(); ++n)
    last.insert(log->descriptor(n));
  CHECK(last.size() == close_log::length);
  CHECK(*last.begin() > 0);
  CHECK(log->descriptor(log->count() - close_log::length - 1) == close_log::lost);
}

TEST_CASE("registry race: contents that stay keep their version, others never have it") {
  CAPTURE(seed());
  constexpr unsigned file_count = 24, openers = 5, most_held = 3;
  model_files files{file_count};
  auto const descriptors = open_descriptors();
  bool scarce = false;
  SUBCASE("a place for each open") {}
  SUBCASE("too few places") { scarce = true; }
  region_memory memory{64, 64, 1 << 20, scarce ? 4 : openers * (most_held + 1)};
  {
    file_registry registry{memory.region, files.settings()};
    shown_descriptors shown(openers);
    std::vector<std::vector<sight>> sights(openers);
    std::atomic<int> wrong{0}, refused{0}, opening{openers};
    std::atomic<bool> over{false};
    in_threads(openers + 2, [&](unsigned t) {
      if (t >= openers) {
        wrong += use_shown(registry, files, shown, over, seed() + t);
        return;
      }
      std::mt19937_64 random{seed() * 31 + t};
      struct open_file {
        std::int32_t fd;
        unsigned file;
      };
      std::deque<open_file> held;
      auto const close_one = [&] {
        auto const [fd, file] = held.front();
        held.pop_front();
        auto const host = registry.borrow(fd);
        if (!host || inode_of(host->read_descriptor()) != files.inodes[file]) ++wrong;
        if (!registry.is_open(fd) || registry.close(fd) != 0) ++wrong;
      };
      for (unsigned i = 0; i < scaled(4000, 600); ++i) {
        // A few files are everybody's, the others this thread's.
        auto const file =
            unsigned(random() % 3 == 0 ? random() % 4 : 4 + (random() % 4 * openers + t) % 20);
        if (random() % 8 == 0) ++files.changes[file];
        sight s{.file = file, .before = files.changes[file].load()};
        auto const fd = registry.open(files.paths[file], O_RDONLY);
        if (fd == -ENFILE) {
          ++refused;
          if (!held.empty()) close_one();
          continue;
        }
        if (fd <= 0) {
          ++wrong;
          continue;
        }
        s.version = memory.version(fd);
        auto const size = memory.size(fd);
        s.after = files.changes[file].load();
        sights[t].push_back(s);
        if (size < 1000 + s.before || size > 1000 + s.after) ++wrong;
        if (memory.tag(fd) != rpc::descriptor_generation(fd)) ++wrong;
        shown[t] = std::uint64_t(file) << 32 | std::uint32_t(fd);
        held.push_back({fd, file});
        if (registry.open_count() > registry.capacity()) ++wrong;
        if (random() % 16 == 0 && registry.advise(fd, 0, 0, gpufs::advice::random) != 0) ++wrong;
        if (random() % 64 == 0 && registry.name_of(s.version).empty() &&
            files.changes[file].load() == s.before)
          ++wrong;
        while (held.size() >= most_held || (!held.empty() && random() % 2 == 0)) close_one();
      }
      while (!held.empty()) close_one();
      if (--opening == 0) over = true;
    });
    CHECK(wrong == 0);
    if (!scarce) CHECK(refused == 0);
    CHECK(registry.open_count() == 0);
    CHECK(open_descriptors() == descriptors);
    std::vector<sight> all;
    for (auto const& some : sights) all.insert(all.end(), some.begin(), some.end());
    check_versions(all);
    // Every place is there, for a descriptor of its own.
    std::set<std::int32_t> open;
    for (unsigned i = 0; i < std::min<unsigned>(file_count, unsigned(registry.capacity())); ++i)
      open.insert(registry.open(files.paths[i], O_RDONLY));
    CHECK(open.size() == std::min<std::size_t>(file_count, registry.capacity()));
    CHECK(*open.begin() > 0);
    CHECK(registry.open_count() == open.size());
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("registry race: writers, readers and closes: versions grow, and nothing stays open") {
  CAPTURE(seed());
  constexpr unsigned file_count = 6, threads = 5;
  scratch_folder folder;
  std::vector<std::string> paths;
  std::vector<std::uint64_t> inodes;
  for (unsigned i = 0; i < file_count; ++i) {
    paths.push_back(make_file(folder, std::to_string(i), 100));
    struct ::stat s {};
    REQUIRE(::stat(paths.back().c_str(), &s) == 0);
    inodes.push_back(s.st_ino);
  }
  auto const descriptors = open_descriptors();
  region_memory memory{64, 64, 1 << 20, 2 * threads, 4};
  std::vector<std::vector<std::uint64_t>> newest(threads, std::vector<std::uint64_t>(file_count));
  {
    write_back writes{memory.region.writes, nullptr};
    file_registry registry{memory.region, settled(), &writes};
    std::atomic<int> wrong{0};
    in_threads(threads, [&](unsigned t) {
      std::mt19937_64 random{seed() * 77 + t};
      auto& last = newest[t];
      for (unsigned i = 0; i < scaled(2000, 300); ++i) {
        auto const file = unsigned(random() % 2 == 0 ? t % file_count : random() % file_count);
        constexpr int kinds[] = {O_RDONLY,         O_RDONLY,          O_RDWR,
                                 O_WRONLY,         O_RDWR | O_APPEND, O_WRONLY | write_once,
                                 O_RDWR | O_TRUNC, O_RDWR | O_CREAT};
        int const flags = kinds[random() % std::size(kinds)];
        auto const fd = registry.open(paths[file], flags, 0644);
        if (fd <= 0) {
          ++wrong;
          continue;
        }
        auto const host = registry.borrow(fd);
        if (!host || inode_of(host->read_descriptor()) != inodes[file]) ++wrong;
        bool const writes_it = (flags & O_ACCMODE) != O_RDONLY;
        // Pages of O_GWRONCE have versions of their own.
        bool const shares = (flags & write_once) == 0;
        auto const opened = memory.version(fd);
        if (shares && opened < last[file]) ++wrong;
        auto before = opened;
        auto const changed = [&] {
          if (!shares) return;
          auto const now = memory.version(fd);
          if (now <= before) ++wrong;
          before = now;
        };
        switch (random() % 6) {
          case 0:
            if (truncated(registry, fd, random() % 5000) != (writes_it ? 0 : -EINVAL)) ++wrong;
            if (writes_it) changed();
            break;
          case 1: {
            auto const result =
                registry.write(fd, [](stored_file const& to) { return to.truncate(77) == 0; });
            if (result != (writes_it ? 0 : -EBADF)) ++wrong;
            if (writes_it) changed();
            break;
          }
          case 2:
            if (registry.discard(fd) != (writes_it ? 0 : -EINVAL)) ++wrong;
            if (writes_it) changed();
            break;
          case 3:
            if (registry.sync(fd) != 0 || registry.flush(fd) != 0) ++wrong;
            break;
          case 4:
            if (registry.advise(fd, 0, 0, gpufs::advice::sequential) != 0) ++wrong;
            if (registry.flush_all() != 0) ++wrong;
            break;
          default: {
            rpc::file_status status{};
            if (registry.stat(fd, status) != 0 || status.inode != inodes[file]) ++wrong;
          }
        }
        if (shares) last[file] = std::max(before, memory.version(fd));
        if (registry.close(fd) != 0) ++wrong;
      }
    });
    CHECK(wrong == 0);
    CHECK(registry.open_count() == 0);
    CHECK(writes.attached() == 0);
    CHECK(open_descriptors() == descriptors);
    // All write indices are there, and the files are as they are on the disk.
    for (unsigned i = 0; i < file_count; ++i) {
      auto const fd = registry.open(paths[i], O_RDWR);
      REQUIRE(fd > 0);
      CHECK(memory.size(fd) == std::filesystem::file_size(paths[i]));
      for (auto const& last : newest) CHECK(memory.version(fd) >= last[i]);
    }
    for (unsigned i = file_count; i < registry.capacity(); ++i)
      CHECK(registry.open(folder / ("new" + std::to_string(i)), O_RDWR | O_CREAT, 0644) > 0);
  }
  CHECK(open_descriptors() == descriptors);
}
