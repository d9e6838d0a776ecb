#include <test/support/files.hpp>

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::test {

namespace {

[[noreturn]] void fail(std::string const& what) {
  throw std::system_error{errno, std::generic_category(), what};
}

class host_descriptor {
 public:
  host_descriptor(std::string const& path, int flags)
      : fd_{::open(path.c_str(), flags | O_CLOEXEC, 0644)} {
    if (fd_ < 0) fail(path);
  }
  ~host_descriptor() { ::close(fd_); }
  host_descriptor(host_descriptor const&) = delete;
  host_descriptor& operator=(host_descriptor const&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

// Eight bytes of contents at a time, so that no two neighbouring pages or words are alike.
std::uint64_t word_of(std::uint64_t contents, std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ull + contents * 0xd1b54a32d192ed03ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

scratch_folder::scratch_folder() {
  auto name = (std::filesystem::temp_directory_path() / "gpufs-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail(name);
  path_ = name;
  if (::chmod(name.c_str(), 0755) != 0) fail(name);
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_range(std::string const& file, std::uint64_t contents, std::uint64_t offset,
                 std::uint64_t length) {
  constexpr std::uint64_t piece = 1 << 20;
  host_descriptor const fd{file, O_WRONLY | O_CREAT};
  std::vector<std::byte> bytes(std::min(length, piece));
  for (std::uint64_t done = 0; done < length;) {
    auto const n = std::min(length - done, piece);
    for (std::uint64_t i = 0; i < n;) {
      auto const at = offset + done + i;
      auto const rest = word_of(contents, at / 8) >> at % 8 * 8;
      auto const some = std::min(8 - at % 8, n - i);
      std::memcpy(&bytes[i], &rest, some);
      i += some;
    }
    if (::pwrite(fd, bytes.data(), n, off_t(offset + done)) != ssize_t(n)) fail(file);
    done += n;
  }
}

std::string make_file(scratch_folder const& folder, std::string const& name, std::uint64_t size,
                      std::uint64_t contents) {
  auto path = folder / name;
  write_range(path, contents, 0, size);
  return path;
}

void set_size(std::string const& file, std::uint64_t size) {
  host_descriptor const fd{file, O_WRONLY | O_CREAT};
  if (::ftruncate(fd, off_t(size)) != 0) fail(file);
}

void let_stamps_age(std::string const& file) {
  constexpr std::int64_t second = 1'000'000'000;
  auto const nanoseconds = [](::timespec const& t) {
    return std::int64_t(t.tv_sec) * second + t.tv_nsec;
  };
  host_descriptor const fd{file, O_RDONLY};
  struct ::stat status {};
  if (::fstat(fd, &status) != 0) fail(file);
  auto const changed = std::max(nanoseconds(status.st_ctim), nanoseconds(status.st_mtim));
  auto const grain = changed % second == 0 ? 3 * second : second / 20;
  ::timespec now{};
  do ::clock_gettime(CLOCK_REALTIME, &now);
  while (nanoseconds(now) < changed + grain);
}

std::vector<std::byte> pread_bytes(std::string const& file, std::uint64_t offset,
                                   std::uint64_t count) {
  host_descriptor const fd{file, O_RDONLY};
  struct ::stat status {};
  if (::fstat(fd, &status) != 0) fail(file);
  auto const size = std::uint64_t(status.st_size);
  std::vector<std::byte> bytes(offset < size ? std::min(count, size - offset) : 0);
  for (std::size_t done = 0; done < bytes.size();) {
    auto const n = ::pread(fd, bytes.data() + done, bytes.size() - done, off_t(offset + done));
    if (n <= 0) fail(file);
    done += std::size_t(n);
  }
  return bytes;
}

std::string text_of(std::string const& file) {
  auto const bytes = pread_bytes(file, 0, ~0ull);
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

void write_bytes(std::string const& file, std::vector<std::byte> const& bytes) {
  host_descriptor const fd{file, O_WRONLY | O_CREAT};
  if (::pwrite(fd, bytes.data(), bytes.size(), 0) != ssize_t(bytes.size())) fail(file);
}

}  // namespace gpufs::test
