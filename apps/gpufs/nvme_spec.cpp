#include <gpufs/base/mix64.hpp>
#include <gpufs/settings.hpp>

#include <apps/common/program.hpp>
#include <apps/gpufs/nvme_spec.hpp>

#include <fmt/format.h>
#include <nvme-controller/controller.hpp>
#include <nvme-host/software.hpp>
#include <nvme-host/vfio.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t most_memory = std::uint64_t{1} << 40;

std::shared_ptr<nvme_controller::block_namespace> open_blocks(nvme_spec const& spec) {
  if (spec.kind == nvme_spec::kinds::software) {
    try {
      return std::make_shared<nvme_controller::file_namespace>(
          spec.name, 512, nvme_controller::file_namespace::mode::read_only);
    } catch (std::invalid_argument const& e) {
      throw usage_error(e.what());
    }
  }
  auto made = std::make_shared<nvme_controller::memory_namespace>(spec.bytes, 512);
  auto const bytes = made->bytes();
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t const word = base::mix64(at);
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return made;
}

}  // namespace

nvme_spec parse_nvme_spec(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("nvme:")) rest.remove_prefix(5);
  auto const wrong = [&](std::string_view why) {
    return usage_error(
        fmt::format("{}: {}; mem:SIZE, soft:PATH or vfio:ADDRESS is allowed", text, why));
  };
  auto const colon = rest.find(':');
  if (colon == std::string_view::npos) throw wrong("names no kind of controller");
  std::string_view const kind = rest.substr(0, colon);
  std::string_view const value = rest.substr(colon + 1);
  if (value.empty()) throw wrong("nothing follows the kind");
  if (kind == "mem")
    return {nvme_spec::kinds::memory, size_option("mem", value, 4096, most_memory), ""};
  // Several members come with the files of block devices.
  if (value.find(',') != std::string_view::npos)
    throw wrong("has several members, one is possible");
  if (kind == "soft") return {nvme_spec::kinds::software, 0, std::string(value)};
  if (kind == "vfio") return {nvme_spec::kinds::vfio, 0, std::string(value)};
  throw wrong("has another kind");
}

std::unique_ptr<nvme_host::controller_link> open_controller(
    nvme_spec const& spec, unsigned threads, nvme_host::memory_source const& memory) {
  if (spec.kind == nvme_spec::kinds::vfio) return std::make_unique<nvme_host::vfio_link>(spec.name);
  return std::make_unique<nvme_host::software_link>(
      nvme_controller::controller_options{.namespaces = {open_blocks(spec)}, .threads = threads},
      memory);
}

std::vector<ability> look_at_nvme() {
  std::vector<ability> all{{"NVMe, software controller", true, ""}};
  std::string why;
  if (::access("/dev/vfio/vfio", F_OK) != 0) {
    why = "there is no /dev/vfio/vfio: load vfio-pci, and switch the IOMMU on";
  } else {
    std::error_code none;
    bool groups = false;
    for (auto const& entry : std::filesystem::directory_iterator("/dev/vfio", none))
      if (entry.path().filename() != "vfio" && ::access(entry.path().c_str(), R_OK | W_OK) == 0)
        groups = true;
    if (!groups) why = "no group in /dev/vfio may be opened: bind a drive to vfio-pci";
  }
  all.push_back({"NVMe, drives through vfio", why.empty(), why});
  return all;
}

}  // namespace gpufs::apps
