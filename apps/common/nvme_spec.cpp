#include <gpufs/nvme.hpp>

#include <apps/common/nvme_spec.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <system_error>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t most_memory = std::uint64_t{1} << 40;
constexpr std::uint64_t largest_page = 4 << 20;  // that settings allow
constexpr std::string_view prefix = "nvme:";

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> all;
  for (;;) {
    auto const comma = list.find(',');
    all.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return all;
    list.remove_prefix(comma + 1);
  }
}

/// The first member that is named again, or "".
std::string named_twice(std::vector<std::string> const& members) {
  for (auto at = members.begin(); at != members.end(); ++at)
    if (std::find(at + 1, members.end(), *at) != members.end()) return *at;
  return "";
}

}  // namespace

bool is_nvme_spec(std::string_view text) { return text.starts_with(prefix); }

nvme_spec parse_nvme_spec(std::string_view text) {
  std::string_view rest = text;
  if (is_nvme_spec(rest)) rest.remove_prefix(prefix.size());
  auto const wrong = [&](std::string_view why) {
    return usage_error(fmt::format("{}: {}; {} is allowed", text, why, nvme_spec_forms));
  };
  auto const colon = rest.find(':');
  if (colon == std::string_view::npos) throw wrong("names no kind of controller");
  std::string_view const kind = rest.substr(0, colon);
  std::string_view const value = rest.substr(colon + 1);
  if (value.empty()) throw wrong("nothing follows the kind");
  if (kind == "mem")
    return {nvme_spec::kinds::memory, size_option("nvme:mem", value, 4096, most_memory), {}};
  auto members = split(value);
  if (std::ranges::find(members, "") != members.end()) throw wrong("has a member without a name");
  if (kind == "soft" || kind == "direct")
    return {nvme_spec::kinds::software, 0, std::move(members), kind == "direct"};
  if (kind == "vfio" || kind == "relay") {
    if (auto const twice = named_twice(members); !twice.empty())
      throw wrong(fmt::format("names the drive {} twice", twice));
    return {nvme_spec::kinds::vfio, 0, std::move(members), false, kind == "relay"};
  }
  throw wrong("has another kind");
}

std::uint64_t stripe_of(nvme_spec const& spec) {
  std::uint64_t least = largest_page;
  if (spec.kind == nvme_spec::kinds::software)
    for (auto const& member : spec.members) {
      std::error_code error;
      auto const bytes = std::filesystem::file_size(member, error);
      if (!error) least = std::min<std::uint64_t>(least, bytes);
    }
  return std::max(std::bit_floor(least), nvme::software_options{}.stripe);
}

void attach(filesystem& fs, std::string const& name, nvme_spec const& spec) {
  // Stripes hold whole pages. One member alone has all bytes in their order with any stripe.
  std::uint64_t const least =
      spec.members.size() > 1 ? stripe_of(spec) : std::uint64_t{fs.settings().page_size};
  if (spec.kind == nvme_spec::kinds::vfio) {
    nvme::vfio_options o;
    o.devices = spec.members;
    o.relay_doorbells = spec.relay;
    o.stripe = std::max(o.stripe, least);
    return fs.attach(name, o);
  }
  nvme::software_options o;
  o.stripe = std::max(o.stripe, least);
  o.memory = spec.bytes;
  o.members.assign(spec.members.begin(), spec.members.end());
  o.direct = spec.direct;
  o.read_only = spec.kind == nvme_spec::kinds::software;
  fs.attach(name, o);
}

}  // namespace gpufs::apps
