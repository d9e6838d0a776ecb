#include <apps/bench/bench_file.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <system_error>

namespace gpufs::apps {

bench_file::bench_file(std::string const& path, std::string const& folder, std::uint64_t bytes,
                       std::uint64_t seed) {
  if (path.empty()) {
    made_.emplace(folder, bytes, seed);
    files_.emplace_back(made_->path());
    name_ = "(temporary)";
    return;
  }
  try {
    files_.emplace_back(path);
  } catch (std::system_error const& e) {
    throw usage_error(fmt::format("--file={}: {}", path, e.code().message()));
  }
  if (files_.front().size() == 0)
    throw usage_error(fmt::format("--file={}: must not be empty", path));
  name_ = path;
}

}  // namespace gpufs::apps
