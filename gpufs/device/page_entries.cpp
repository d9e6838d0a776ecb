#include <gpufs/device.hpp>
#include <gpufs/device/page_entries.hpp>
#include <gpufs/device/shared_range.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::device_memory {

namespace {

constexpr std::uint64_t pages_of_unit = shared_range::granularity / host_page;
constexpr char file_name[] = "/proc/self/pagemap";

/// Closes it.
struct pagemap {
  int fd = ::open(file_name, O_RDONLY | O_CLOEXEC);
  ~pagemap() {
    if (fd >= 0) ::close(fd);
  }
};

// Its page lies in memory, or has been swapped out.
bool has_entry_in(std::uint64_t word) { return (word >> 62) != 0; }

}  // namespace

std::vector<std::uint64_t> units_with_pages(std::byte const* begin, std::uint64_t first,
                                            std::uint64_t end, bool has_entry) {
  std::vector<std::uint64_t> found;
  pagemap const map;
  std::array<std::uint64_t, pages_of_unit> words;
  for (auto at = first / host_page * host_page; at < end;) {
    auto const unit = at / shared_range::granularity;
    auto const next = std::min((unit + 1) * shared_range::granularity, end);
    auto const count = (next - at + host_page - 1) / host_page;
    auto const page = (reinterpret_cast<std::uintptr_t>(begin) + at) / host_page;
    auto const bytes = count * sizeof words[0];
    auto const got =
        map.fd < 0 ? -1 : ::pread(map.fd, words.data(), bytes, off_t(page * sizeof words[0]));
    if (got < 0 && errno == EINTR) continue;
    if (got != ssize_t(bytes))
      throw device_error(std::string(file_name) + ": " +
                         (got < 0 ? std::strerror(errno) : "ends too early"));
    if (std::any_of(words.begin(), words.begin() + std::ptrdiff_t(count),
                    [&](std::uint64_t word) { return has_entry_in(word) == has_entry; }))
      found.push_back(unit);
    at = next;
  }
  return found;
}

}  // namespace gpufs::device_memory
