// What a loss of power leaves of the files that our programs write: the old file or the new one,
// and the new one once the program has ended. The programs lie beside this suite, and so does the
// library that notes what they change. These are their host parts: one device is as good as
// another.
#include <test/crash/crash_disk.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <sys/stat.h>

using namespace gpufs::test;
namespace stdfs = std::filesystem;

namespace {

std::string const small = " --cache 1M --staging 512K --prefetch-memory 1M";

/// The files below a folder at one time.
struct snapshot {
  crash_disk::names names;
  std::map<std::uint64_t, crash_disk::bytes> contents;  ///< by inode

  explicit snapshot(std::string const& folder) {
    for (auto const& e : stdfs::recursive_directory_iterator(folder)) {
      auto const path = e.path().string();
      struct ::stat status {};
      if (::lstat(path.c_str(), &status) != 0) continue;
      names[path] = status.st_ino;
      if (S_ISREG(status.st_mode)) contents[status.st_ino] = pread_bytes(path, 0, ~0ull);
    }
  }
  /// Null if there is no such file, or if it is none.
  [[nodiscard]] crash_disk::bytes const* of(std::string const& path) const {
    auto const name = names.find(path);
    auto const found = name == names.end() ? contents.end() : contents.find(name->second);
    return found == contents.end() ? nullptr : &found->second;
  }
};

/// `both` if the new contents are the old ones.
enum class holds { nothing, old, fresh, both, broken };

bool is_old(holds h) { return h == holds::old || h == holds::both; }
bool is_fresh(holds h) { return h == holds::fresh || h == holds::both; }

/// A run of a program that changes files in a folder.
class program_run {
 public:
  program_run(std::string const& folder, std::string const& program, std::string const& arguments)
      : folder_(stdfs::canonical(folder).string()), before_(folder_), after_(folder_) {
    auto const bin = stdfs::read_symlink("/proc/self/exe").parent_path();
    auto const log = bin / fmt::format("crash-{}.log", ::getpid());
    stdfs::remove(log);
    auto const command = fmt::format(
        "GPUFS_CHANGE_LOG={} LD_PRELOAD={}/libgpufs_crash_log.so "
        "ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 {}/{} {} > {}.said 2>&1",
        log.string(), bin.string(), bin.string(), program, arguments, log.string());
    int const status = std::system(command.c_str());
    CHECK_MESSAGE(status == 0, command, "\n", text_of(log.string() + ".said"));
    after_ = snapshot(folder_);
    disk_ = crash_disk(read_log(log.string()));
    stdfs::remove(log), stdfs::remove(log.string() + ".said");
  }

  [[nodiscard]] snapshot const& after() const { return after_; }
  [[nodiscard]] std::string operator/(std::string const& name) const {
    return folder_ + "/" + name;
  }

  /// What is there after one crash.
  class state {
   public:
    state(program_run const& run, std::size_t moment, loss const& lost)
        : run_(run),
          moment_(moment),
          lost_(lost),
          names_(run.disk_.named(run.before_.names, moment, lost)) {}

    [[nodiscard]] holds look(std::string const& name) const {
      auto const path = run_ / name;
      auto const found = names_.find(path);
      if (found == names_.end()) return holds::nothing;
      auto const* const before = run_.before_.of(path);
      auto const* const after = run_.after_.of(path);
      if (before == nullptr && after == nullptr) {  // a folder, or a link
        auto const is = [&](snapshot const& s) {
          return s.names.contains(path) && s.names.at(path) == found->second;
        };
        return is(run_.after_) ? holds::fresh : is(run_.before_) ? holds::old : holds::broken;
      }
      auto const bytes = contents(found->second);
      bool const old = before != nullptr && bytes == *before;
      bool const fresh = after != nullptr && bytes == *after;
      return old && fresh ? holds::both : old ? holds::old : fresh ? holds::fresh : holds::broken;
    }
    /// Whether a file has the bytes that `name` has in the end, under that name or another one that
    /// begins so.
    [[nodiscard]] bool has_fresh(std::string const& name) const {
      auto const* const after = run_.after_.of(run_ / name);
      return after != nullptr && std::ranges::any_of(names_, [&](auto const& entry) {
               return entry.first.starts_with(run_ / name) && contents(entry.second) == *after;
             });
    }
    [[nodiscard]] bool was_there(std::string const& name) const {
      return run_.before_.names.contains(run_ / name);
    }

   private:
    [[nodiscard]] crash_disk::bytes contents(std::uint64_t inode) const {
      auto const before = run_.before_.contents.find(inode);
      return run_.disk_.image(
          inode, before == run_.before_.contents.end() ? crash_disk::bytes{} : before->second,
          moment_, lost_);
    }

    program_run const& run_;
    std::size_t moment_;
    loss lost_;
    crash_disk::names names_;
  };

  /// Calls wrong(state) for many crashes. It says what is wrong with one, or nothing. At the end of
  /// the program, whatever is not durable is lost: these files must be there all the same.
  void check(std::vector<std::string> const& targets,
             std::function<std::string(state const&)> const& wrong) const {
    std::mt19937_64 random(seed());
    std::map<std::string, std::size_t> problems;
    for (std::size_t m = 0; m < disk_.moments(); ++m) {
      for (auto const& lost : {loss{loss::kind::all}, loss{loss::kind::none},
                               loss{loss::kind::some, random()}, loss{loss::kind::some, random()}})
        if (auto const what = wrong({*this, m, lost}); !what.empty()) ++problems[what];
    }
    for (auto const& [what, count] : problems) FAIL_CHECK(what, ", after ", count, " crashes");
    CHECK(disk_.moments() > 4);
    for (auto const& name : targets) {
      CAPTURE(name);
      auto const end = disk_.moments() - 1;
      CHECK(is_fresh(state(*this, end, {loss::kind::none}).look(name)));  // the log has it all
      CHECK(is_fresh(state(*this, end, {loss::kind::all}).look(name)));
    }
  }
  /// Each file is the old one or the new one.
  void check(std::vector<std::string> const& targets) const {
    check(targets, [&](state const& s) -> std::string {
      for (auto const& name : targets) {
        auto const h = s.look(name);
        if (h == holds::broken) return name + ": neither the old file nor the new one";
        if (h == holds::nothing && s.was_there(name)) return name + ": gone";
      }
      return {};
    });
  }

 private:
  std::string folder_;
  snapshot before_, after_;
  crash_disk disk_{{}};
};

/// A database of tiles changes: tiles.hist is never there without the tiles.rgba and with an index
/// that are not its own, and what is gone has a new file.
void check_database(program_run const& run) {
  run.check({"db/tiles.rgba", "db/tiles.hist"}, [](program_run::state const& s) -> std::string {
    auto const rgba = s.look("db/tiles.rgba"), hist = s.look("db/tiles.hist"),
               lsh = s.look("db/tiles.lsh");
    for (auto const h : {rgba, hist, lsh})
      if (h == holds::broken) return "a file that is neither old nor new";
    bool const fits = (is_old(hist) && is_old(rgba)) || (is_fresh(hist) && is_fresh(rgba));
    if (hist != holds::nothing && !fits) return "tiles.hist of other tiles";
    if (lsh != holds::nothing && is_fresh(hist)) return "an index of other tiles";
    for (auto const* const name : {"db/tiles.rgba", "db/tiles.hist"})
      if (s.was_there(name) && !is_old(s.look(name)) && !s.has_fresh(name))
        return std::string(name) + ": gone, and the new one is not durable";
    return {};
  });
}

void put_text(std::string const& path, std::string const& text) {
  auto const* const bytes = reinterpret_cast<std::byte const*>(text.data());
  write_bytes(path, {bytes, bytes + text.size()});
}

}  // namespace

TEST_CASE("crash: gpufs-cp leaves each file as it was or as its copy, and ends with the copies") {
  scratch_folder folder, other;
  auto const from = other / "tree", to = folder / "copy";
  stdfs::create_directories(from + "/below/deep");
  stdfs::create_directories(to + "/below");
  std::vector<std::string> targets{"copy/below/deep", "copy/link", "copy/second"};
  for (auto const* const name : {"a", "b", "below/c", "below/deep/d", "empty"}) {
    auto const size = std::string_view(name) == "empty" ? 0 : 3000 * targets.size();
    write_range(from + "/" + name, targets.size(), 0, size);
    targets.push_back(std::string("copy/") + name);
  }
  stdfs::create_symlink("a", from + "/link");
  stdfs::create_hard_link(from + "/a", from + "/second");
  put_text(to + "/a", "an old file");
  put_text(to + "/below/c", std::string(9000, 'x'));
  program_run const run(folder.path(), "gpufs-cp",
                        from + "/. " + to + " --blocks 2 --threads 32" + small);
  run.check(targets);
}

TEST_CASE("crash: gpufs-cp makes the name of a copy durable in a folder that was there") {
  scratch_folder folder;
  put_text(folder / "from", "some bytes");
  program_run const run(folder.path(), "gpufs-cp",
                        folder / "from" + " " + folder / "to" + " --blocks 1 --threads 32" + small);
  run.check({"to"});
}

TEST_CASE("crash: mosaic replaces a database as a whole") {
  scratch_folder folder, other;
  write_range(other / "x.rgba", 5, 0, 24 * 4096);
  auto const data = " --data " + folder / "db";
  auto const index = [&] {
    program_run const run(folder.path(), "mosaic", "index" + data + " --bits 2");
    run.check({"db/tiles.lsh"});
  };
  {
    program_run const run(folder.path(), "mosaic", "generate --tiles 24" + data);
    check_database(run);
    run.check({"db", "db/tiles.rgba", "db/tiles.hist"});
  }
  index();
  check_database({folder.path(), "mosaic", "import " + other / "x.rgba" + data});
  index();
  check_database({folder.path(), "mosaic", "generate --tiles 32 --seed 9" + data});
  index();
  for (int seed = 1; seed <= 2; ++seed) {
    program_run const run(
        folder.path(), "mosaic",
        fmt::format("make{} --mode cpu --seed {} --output {}", data, seed, folder / "pictures"));
    run.check({"pictures/mosaic.png"});
  }
}

TEST_CASE("crash: gpufs tune leaves the old settings or the new ones") {
  scratch_folder folder, other;
  auto const file = make_file(other, "data", 40'000);
  put_text(folder / "old.toml", "page_size = \"4K\"\n");
  for (auto const* const out : {"new.toml", "old.toml"}) {
    program_run const run(folder.path(), "gpufs",
                          fmt::format("tune {} --time 1 --force --out {} --threads 32 --blocks 1 "
                                      "--page-size 4K --io-path pull --host-threads 1 "
                                      "--prefetch-size 0{}",
                                      file, folder / out, small));
    run.check({out});
  }
}

TEST_CASE("crash: gpufs tune --mapping leaves the old settings or the old and the new ones") {
  scratch_folder folder;
  put_text(folder / "old.toml", "page_size = \"4K\"\n");
  program_run const run(folder.path(), "gpufs",
                        "tune --mapping --size 64K --rounds 3 --coherence-block 4K "
                        "--rolling-size 8 --force --out " +
                            (folder / "old.toml"));
  run.check({"old.toml"});
}

TEST_CASE("crash: gpufs bench apps leaves its old results or the new ones") {
  scratch_folder folder;
  for (int runs = 1; runs <= 2; ++runs) {
    program_run const run(
        folder.path(), "gpufs",
        fmt::format("bench apps --only 2dconv --variants 64K --runs {} --out {} --staging 4M "
                    "--prefetch-memory 8M --no-charts",
                    runs, folder / "out"));
    run.check({"out", "out/2dconv-smoke.csv", "out/apps-smoke.md"});
  }
}
