#include <gpufs/device.hpp>
#include <gpufs/device/file_window.hpp>
#include <gpufs/mapping.hpp>

#include <apps/common/build_facts.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/storage_limits.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/gpufs/machine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

/// Why no window of a file can be registered for the device, or nothing.
std::string try_mapping(std::string const& folder) {
  try {
    temp_file const file(folder, 1 << 20, 1);
    host_file const plain(file.path());
    detail::file_window window;
    auto const result = detail::map_file_window(plain.descriptor(), 0, 1 << 20, window);
    if (result.refused != detail::mapping_refusal::none)
      return fmt::format("{}: {}", result.call, result.why);
    detail::unmap_file_window(window);
    return "";
  } catch (std::exception const& e) {
    return e.what();
  }
}

}  // namespace

host_facts look_at_host() {
  host_facts h;
  h.cores = std::thread::hardware_concurrency();
  h.memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  h.cpu = cpu_name();
  h.kernel = kernel_name();
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    h.locked_memory = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_size(limit.rlim_cur);
  }
  return h;
}

std::vector<ability> look_at_io(config const& settings, std::string const& folder) {
  std::vector<ability> all;
  uring_facts const u = look_at_uring(std::min<std::uint64_t>(settings.staging_size, 1 << 30));
  all.push_back({"io_uring", u.refused.empty(), u.refused});
  all.push_back({"io_uring, registered buffers", u.refused.empty() && u.buffers_refused.empty(),
                 u.refused.empty() ? u.buffers_refused : "needs io_uring"});
  all.push_back({"pread threads", true, ""});
  try {
    temp_file const file(folder, 1 << 20, 1);
    host_file const plain(file.path());
    plain.drop_from_page_cache();
    std::string const refused = try_direct_read(plain);
    all.push_back({fmt::format("O_DIRECT in {}", folder), refused.empty(), refused});
    all.push_back(
        {"cachestat", plain.cached_part().has_value(),
         plain.cached_part()
             ? ""
             : "refused, or older than Linux 6.5: what the OS page cache holds is only sampled"});
  } catch (std::exception const& e) {
    all.push_back({fmt::format("O_DIRECT in {}", folder), false, e.what()});
  }
  return all;
}

ability look_at_user_faults() {
  ability a{"userfaultfd for shared memory", false, ""};
  try {
    mapping_config c;
    c.fault_handler = fault_handling::userfault;
    auto const notes = shared_memory(c).notes();
    constexpr std::string_view refused = "fault_handler: signal, as ";
    auto const why = std::ranges::find_if(
        notes, [&](std::string const& note) { return note.starts_with(refused); });
    a.works = why == notes.end();
    if (!a.works) a.remark = why->substr(refused.size());
  } catch (device_error const& e) {
    a.remark = e.what();
  }
  return a;
}

ability look_at_managed_memory() {
  ability a{"managed memory for shared memory", false, ""};
  try {
    mapping_config c;
    c.backing = memory_backing::managed;
    shared_memory memory(c);
    mapping const one = memory.allocate(1);
    a.works = true;
  } catch (std::exception const& e) {
    a.remark = e.what();
  }
  return a;
}

std::vector<ability> look_at_paths(config const& settings, std::string const& folder) {
  std::vector<ability> all;
  std::string no_memory;
  try {
    pinned_buffer<char> const pinned(1 << 20);
  } catch (device_error const& e) {
    no_memory = e.what();
  }
  for (auto const& [name, path] :
       {std::pair{"pull", io_path::pull}, std::pair{"dma", io_path::dma},
        std::pair{"direct", io_path::direct}, std::pair{"registered", io_path::registered}}) {
    config c = settings;
    c.path = path;
    std::string why = no_memory;
    try {
      validate(c);
      if (path == io_path::registered && why.empty()) why = try_mapping(folder);
    } catch (config_error const& e) {
      why = e.what();
    }
    all.push_back({name, why.empty(), why});
  }
  return all;
}

}  // namespace gpufs::apps
