#include <gpufs/config.hpp>

#include <apps/common/free_space.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <sys/statvfs.h>
#include <unistd.h>

namespace gpufs::apps {

void require_free_space(std::string const& folder, std::string const& from, std::uint64_t bytes) {
  constexpr std::uint64_t mebi = 1 << 20;
  struct ::statvfs system {};
  if (::statvfs(folder.c_str(), &system) != 0 || system.f_blocks == 0) return;
  // The superuser may use what is kept for it.
  std::uint64_t const blocks = ::geteuid() == 0 ? system.f_bfree : system.f_bavail;
  std::uint64_t free = 0;
  if (__builtin_mul_overflow(blocks, std::uint64_t{system.f_frsize}, &free)) return;
  if (bytes <= free) return;
  std::uint64_t const more = bytes % mebi == 0 ? 0 : 1;
  throw usage_error(fmt::format("{} ({}): needs {}, has {} free", folder, from,
                                format_size((bytes / mebi + more) * mebi),
                                format_size(free / mebi * mebi)));
}

}  // namespace gpufs::apps
