#include <gpufs/owner/nvme_members.hpp>

#include <host-daemon/serve/server.hpp>

#include <fmt/format.h>
#include <nvme-controller/controller.hpp>
#include <nvme-host/software.hpp>
#include <nvme-host/vfio.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace gpufs::owner {

namespace {

constexpr std::uint32_t most_members = nvme_host::most_drives;
constexpr std::uint32_t most_threads = 64;         // of a software controller
constexpr std::uint32_t most_software_pairs = 64;  // of an attachment, unless the setting says more
constexpr std::uint32_t most_vfio_pairs = 16;

using plans = std::vector<std::shared_ptr<nvme_controller::fault_plan>>;
using drives = std::vector<std::unique_ptr<nvme_host::drive>>;

thread_local plans injected;

[[noreturn]] void refuse(std::string const& name, std::string const& why) {
  throw std::invalid_argument(fmt::format("nvme:{}: {}", name, why));
}

void check_name(std::string const& name) {
  if (name.empty() || name.size() > 255 || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    refuse(name, "a name has 1 to 255 bytes, and neither '/' nor a zero byte");
}

void check_stripe(std::string const& name, std::uint64_t stripe, config const& settings) {
  if (!std::has_single_bit(stripe) || stripe < settings.page_size)
    refuse(name, fmt::format("stripe={}: must be a power of two, at least page_size={}", stripe,
                             settings.page_size));
}

void check_lba(std::string const& name, std::uint64_t bytes, config const& settings) {
  if (bytes > settings.page_size)
    refuse(name, fmt::format("blocks of {} bytes: page_size={} must be at least as large", bytes,
                             settings.page_size));
}

void check_model(std::string const& name, nvme::drive_model const& m) {
  for (double const rate : {m.read_512, m.read_4k, m.write_512, m.write_4k})
    if (!(rate >= 1 && rate <= 1e9))
      refuse(name, fmt::format("a model of {} commands a second, 1 to 1e9 are possible", rate));
  if (!(m.latency_us >= 0 && m.latency_us <= 1e6))
    refuse(name,
           fmt::format("a model with a latency of {} us, 0 to 1e6 are possible", m.latency_us));
}

void check(std::string const& name, nvme::software_options const& o, config const& settings) {
  check_name(name);
  check_stripe(name, o.stripe, settings);
  if (o.lba != 512 && o.lba != 4096)
    refuse(name, fmt::format("lba={}: must be 512 or 4096", o.lba));
  check_lba(name, o.lba, settings);
  if (o.members.empty() == (o.memory == 0))
    refuse(name, "give either members or the bytes of memory of each member");
  auto const members = o.members.empty() ? std::uint64_t{o.memory_members} : o.members.size();
  if (members == 0 || members > most_members)
    refuse(name, fmt::format("{} members, 1 to {} are possible", members, most_members));
  if (o.threads > most_threads)
    refuse(name, fmt::format("threads={}: must be from 1 to {}, or 0", o.threads, most_threads));
  if (o.direct && o.members.empty()) refuse(name, "direct: memory has no page cache");
  if (o.model) check_model(name, *o.model);
}

std::shared_ptr<nvme_controller::drive_model> model_of(nvme::drive_model const& m) {
  std::chrono::nanoseconds const latency{static_cast<std::int64_t>(m.latency_us * 1000)};
  return std::make_shared<nvme_controller::drive_model>(
      nvme_controller::drive_rates{m.read_512, m.read_4k, m.write_512, m.write_4k, latency});
}

// Half of what callers on the device wait, so that they get the error, and the daemon's thread is
// free again.
std::chrono::milliseconds call_timeout(config const& settings) {
  return std::chrono::milliseconds{std::max(settings.rpc_timeout_ms / 2, 1u)};
}

nvme_host::drive_options drive_options(config const& settings, std::uint32_t pairs,
                                       kernel_side const& kernels) {
  using std::chrono::milliseconds;
  std::uint32_t const wanted = settings.nvme_queue_pairs != 0 ? settings.nvme_queue_pairs : pairs;
  return {.queue_pairs = wanted,
          .depth = settings.nvme_queue_depth,
          .channels = kernels.channels,
          .device_queue_pairs = wanted,
          .device_memory = kernels.memory,
          .timeout = std::clamp(call_timeout(settings), milliseconds{1000}, milliseconds{10'000})};
}

std::shared_ptr<nvme_controller::block_namespace> open_blocks(nvme::software_options const& o,
                                                              std::size_t member) {
  using file = nvme_controller::file_namespace;
  if (o.members.empty())
    return std::make_shared<nvme_controller::memory_namespace>(o.memory, o.lba);
  auto made = std::make_shared<file>(o.members[member], o.lba,
                                     o.read_only ? file::mode::read_only : file::mode::read_write,
                                     o.direct ? file::page_cache::past : file::page_cache::used);
  // The end of the last block would not be kept.
  if (!o.read_only && made->bytes() % o.lba != 0)
    throw std::invalid_argument(
        fmt::format("has {} bytes, no multiple of its blocks of {}; change its size, or attach it "
                    "for reading only",
                    made->bytes(), o.lba));
  return made;
}

// Calls `open`. Errors get the names of file and member.
template <class Open>
std::unique_ptr<nvme_host::drive> member_of(std::string const& name, std::string const& member,
                                            Open const& open) {
  try {
    return open();
  } catch (std::invalid_argument const& e) {
    refuse(name, fmt::format("member {}: {}", member, e.what()));
  } catch (std::runtime_error const& e) {
    throw std::runtime_error(fmt::format("nvme:{}: member {}: {}", name, member, e.what()));
  } catch (std::bad_alloc const&) {
    throw std::runtime_error(
        fmt::format("nvme:{}: member {}: no memory for it, use smaller members", name, member));
  }
}

std::shared_ptr<block_file> file_of(std::string const& name, drives members,
                                    nvme_host::volume_options const& options,
                                    block_file::traits const& of) {
  try {
    auto volume = std::make_unique<nvme_host::volume>(std::move(members), options);
    return std::make_shared<block_file>(std::move(volume), "nvme:" + name, of);
  } catch (std::invalid_argument const& e) {
    refuse(name, e.what());
  }
}

}  // namespace

void inject_controller_faults(plans of) { injected = std::move(of); }

std::shared_ptr<block_file> make_block_file(std::string const& name,
                                            nvme::software_options const& o, config const& settings,
                                            kernel_side const& kernels) {
  plans const faults = std::exchange(injected, {});
  check(name, o, settings);
  std::size_t const count = o.members.empty() ? o.memory_members : o.members.size();
  auto const members = static_cast<std::uint32_t>(count);
  std::uint32_t threads = o.threads != 0 ? o.threads : settings.nvme_threads;
  if (threads == 0) threads = std::max(daemon::default_threads() / members, 1u);
  auto const options = drive_options(
      settings, std::min(2 * threads, std::max(most_software_pairs / members, 1u)), kernels);
  drives all;
  for (std::size_t i = 0; i < count; ++i) {
    auto const member = o.members.empty() ? std::to_string(i) : o.members[i].string();
    all.push_back(member_of(name, member, [&] {
      nvme_controller::controller_options controller{.namespaces = {open_blocks(o, i)},
                                                     .threads = threads};
      if (o.model) controller.model = model_of(*o.model);
      if (i < faults.size() && faults[i] != nullptr) controller.faults = faults[i];
      return std::make_unique<nvme_host::drive>(
          std::make_unique<nvme_host::software_link>(controller, kernels.memory), member, options);
    }));
  }
  return file_of(name, std::move(all),
                 {.replicated = o.how == nvme::layout::replicated,
                  .stripe = o.stripe,
                  .timeout = call_timeout(settings)},
                 {.read_only = o.read_only,
                  .modelled = o.model.has_value(),
                  .relays_doorbells = o.relay_doorbells});
}

std::shared_ptr<block_file> make_block_file(std::string const& name, nvme::vfio_options const& o,
                                            config const& settings, kernel_side const& kernels) {
  check_name(name);
  check_stripe(name, o.stripe, settings);
  if (o.devices.empty() || o.devices.size() > most_members)
    refuse(name, fmt::format("{} devices, 1 to {} are possible", o.devices.size(), most_members));
  for (auto at = o.devices.begin(); at != o.devices.end(); ++at)
    if (std::find(at + 1, o.devices.end(), *at) != o.devices.end())
      refuse(name, fmt::format("device {} is named twice, name each drive once", *at));
  if (o.nsid == 0 || o.nsid == nvme_controller::every_namespace)
    refuse(name, fmt::format("nsid={}: must be from 1 to {}, the number of a namespace", o.nsid,
                             nvme_controller::every_namespace - 1));
  auto options = drive_options(settings, most_vfio_pairs, kernels);
  bool const rings = kernels.reaches_registers || o.relay_doorbells;
  if (!rings) options.channels = 0;
  options.nsid = o.nsid;
  drives all;
  for (auto const& device : o.devices)
    all.push_back(member_of(name, device, [&] {
      return std::make_unique<nvme_host::drive>(std::make_unique<nvme_host::vfio_link>(device),
                                                device, options);
    }));
  for (auto const& each : all) check_lba(name, each->lba_bytes(), settings);
  return file_of(name, std::move(all),
                 {.replicated = o.how == nvme::layout::replicated,
                  .stripe = o.stripe,
                  .timeout = call_timeout(settings)},
                 {.relays_doorbells = o.relay_doorbells, .unreachable_doorbells = !rings});
}

}  // namespace gpufs::owner
