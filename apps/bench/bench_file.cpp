#include <apps/bench/bench_file.hpp>
#include <apps/bench/block_input.hpp>
#include <apps/common/nvme_spec.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <system_error>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t default_copy = 64 << 20;  // of drives, where --size does not say more

/// Whether it is, or is read as, one file of the host.
bool is_file(nvme_spec const& spec) {
  return spec.kind == nvme_spec::kinds::software && spec.members.size() == 1;
}

}  // namespace

bool bench_file::is_copy_of_drives(std::string const& path) {
  return is_nvme_spec(path) && parse_nvme_spec(path).kind == nvme_spec::kinds::vfio;
}

bool bench_file::is_generated(std::string const& path) {
  return path.empty() ||
         (is_nvme_spec(path) && parse_nvme_spec(path).kind == nvme_spec::kinds::memory);
}

void bench_file::check_folder(std::string const& path, std::string const& folder) {
  if (path.empty() || folder == temp_folder()) return;
  if (is_nvme_spec(path) && !is_file(parse_nvme_spec(path))) return;
  throw usage_error(
      fmt::format("--dir={}: is of the temporary file, and --file={} is read", folder, path));
}

std::string bench_file::check_size(std::string const& text) {
  static_cast<void>(size_option("--size", text, 1, largest));
  return {};
}

bench_file::bench_file(std::string const& path, std::string const& folder, std::uint64_t bytes,
                       std::uint64_t seed) {
  if (path.empty()) {
    made_ = std::make_unique<temp_file>(folder, bytes, seed);
    files_.emplace_back(made_->path());
    name_ = "(temporary)";
    return;
  }
  std::string host_path = path;
  if (is_nvme_spec(path)) {
    nvme_spec const spec = parse_nvme_spec(path);
    if (!is_file(spec)) made_ = copy_of(spec, folder, bytes == 0 ? default_copy : bytes, seed);
    host_path = is_file(spec) ? spec.members[0] : made_->path();
  }
  try {
    files_.emplace_back(host_path, path);
  } catch (std::system_error const& e) {
    throw usage_error(fmt::format("--file={}: {}", path, e.code().message()));
  }
  if (files_.front().size() == 0)
    throw usage_error(fmt::format("--file={}: must not be empty", path));
  name_ = path;
}

}  // namespace gpufs::apps
