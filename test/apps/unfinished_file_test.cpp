// Files that appear whole or not at all: their names, what they replace, and what they leave alone.
// emulated_programs_crash_test shows what a loss of power leaves.
#include <apps/common/durable.hpp>
#include <apps/common/unfinished_file.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace gpufs::apps;
using namespace gpufs::test;
using replace = unfinished_file::replace;

namespace {

/// The error of write_whole_file(), 0 if there was none.
int error_of(std::string const& path, replace old = replace::yes) {
  try {
    write_whole_file(path, "new", old);
    return 0;
  } catch (std::system_error const& e) {
    return e.code().value();
  }
}

std::size_t files_in(std::string const& folder) {
  return std::size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a whole file replaces what is there, if it may, and leaves nothing else") {
  scratch_folder folder;
  auto const path = folder / "a";
  CHECK(error_of(path, replace::no) == 0);
  CHECK(text_of(path) == "new");
  write_whole_file(path, "newer");
  CHECK(text_of(path) == "newer");
  CHECK(error_of(path, replace::no) == EEXIST);
  CHECK(text_of(path) == "newer");
  CHECK(error_of(folder / "none/a") == ENOENT);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a whole file has the permissions of the old one; a link stays, and so does a device") {
  scratch_folder folder;
  auto const path = folder / "a", link = folder / "link";
  write_whole_file(path, "old");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  REQUIRE(::symlink("a", link.c_str()) == 0);
  CHECK(error_of(link) == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(text_of(path) == "new");
  struct ::stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(error_of("/dev/null") == 0);
  CHECK(!std::filesystem::is_regular_file("/dev/null"));
}

TEST_CASE("an unfinished file that is not finished leaves the old one, and no other name") {
  scratch_folder folder;
  write_whole_file(folder / "a", "old");
  {
    unfinished_file const file(folder / "a");
    int const fd = file.open_part();
    REQUIRE(fd >= 0);
    CHECK(::write(fd, "x", 1) == 1);
    ::close(fd);
  }
  CHECK(text_of(folder / "a") == "old");
  CHECK(files_in(folder.path()) == 1);
  CHECK_THROWS_AS(unfinished_file(folder / "none/b"), std::system_error);
}

TEST_CASE("an unfinished file replaces regular files only, and keeps links and permissions") {
  scratch_folder folder;
  auto const path = folder / "a", link = folder / "link", pipe = folder / "pipe";
  write_whole_file(path, "old");
  REQUIRE(::chmod(path.c_str(), 0400) == 0);
  REQUIRE(::symlink("a", link.c_str()) == 0);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  {
    unfinished_file const file(link);
    struct ::stat status {};
    REQUIRE(::stat(file.part().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    file.put_in_place();
  }
  CHECK(std::filesystem::is_symlink(link));
  CHECK(text_of(path).empty());
  struct ::stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0400);
  CHECK_THROWS_WITH_AS(unfinished_file{pipe}, (pipe + ": must be a regular file").c_str(),
                       std::runtime_error);
  CHECK_THROWS_AS(unfinished_file(folder.path()), std::runtime_error);
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(files_in(folder.path()) == 3);
}

TEST_CASE("folders are made with those above them") {
  scratch_folder folder;
  CHECK(!make_folders(folder / "a/b/c/"));
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  CHECK(!make_folders(folder / "a/b"));
  write_whole_file(folder / "file", "");
  CHECK(make_folders(folder / "file/b"));
  CHECK(folder_of("a") == ".");
  CHECK(folder_of("/a") == "/");
  CHECK(folder_of("b/a") == "b");
}

TEST_CASE("a file that is standard output gets more bytes, and is not replaced") {
  scratch_folder folder;
  for (std::string const name : {"/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "results"}) {
    CAPTURE(name);
    auto const path = folder / "results";
    write_whole_file(path, "old, ");
    int const appending = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    std::fflush(stdout);
    int const before = ::dup(STDOUT_FILENO);
    REQUIRE(::dup2(appending, STDOUT_FILENO) == STDOUT_FILENO);
    int const error = error_of(name == "results" ? path : name);
    REQUIRE(::dup2(before, STDOUT_FILENO) == STDOUT_FILENO);
    // Another descriptor that is open.
    int const other = error_of("/dev/fd/" + std::to_string(appending));
    ::close(before);
    ::close(appending);
    CHECK(error == 0);
    CHECK(other == 0);
    CHECK(text_of(path) == "old, newnew");
    CHECK(files_in(folder.path()) == 1);
    std::filesystem::remove(path);
  }
}
