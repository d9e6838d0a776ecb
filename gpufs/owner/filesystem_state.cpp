#include <gpufs/owner/filesystem_state.hpp>
#include <gpufs/owner/injected_faults.hpp>

#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/base/log.hpp>
#include <host-daemon/base/say.hpp>
#include <host-daemon/base/trace_file.hpp>
#include <host-daemon/write_back/drain_at_exit.hpp>

#include <fmt/format.h>

#include <exception>
#include <utility>

#include <unistd.h>

namespace gpufs {

namespace {

config checked(config c) {
  validate(c);
  daemon::set_log_level(c.log);
  if (!device_available())
    throw device_error(
        "no device to run on (CUDA finds no GPU or no driver); the emulated variant of gpufs needs "
        "none");
  return c;
}

/// Bytes of memory that the host has; 0: unknown.
std::uint64_t host_memory() {
  auto const pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages <= 0 || page <= 0 ? 0 : std::uint64_t(pages) * std::uint64_t(page);
}

owner::layout layout_for(config const& c) {
  unsigned const threads = c.host_threads != 0 ? c.host_threads : daemon::default_threads();
  return owner::layout::of(c, threads, host_memory());
}

/// Null: none is wanted, or `why` there is none.
std::shared_ptr<daemon::trace_file> open_trace(config const& c, std::string& why) {
  if (c.trace.empty()) return nullptr;
  auto file = daemon::trace_file::open(c.trace, why);
  if (file == nullptr) {
    why = fmt::format("no trace: trace={}: {}", c.trace, why);
    daemon::log_line(log_level::warn, why);
  }
  return file;
}

daemon::server_settings daemon_settings(config const& c, daemon::request_recorder& requests,
                                        std::shared_ptr<daemon::storage_backend> files) {
  auto s = daemon::server_settings::from(c);
  s.requests = &requests;
  s.files.storage = std::move(files);
  return s;
}

}  // namespace

filesystem::state::state(config const& c)
    : process(::getpid()),
      settings(checked(c)),
      sizes(layout_for(settings)),
      faults(owner::take_injected_faults()),
      attached(std::make_shared<daemon::attached_files>("nvme:",
                                                        std::make_shared<daemon::host_storage>())),
      requests(open_trace(settings, no_trace)),
      device(settings, sizes, faults.get(), requests),
      server(std::make_unique<daemon::server>(
          device.served(), daemon_settings(settings, requests, attached), faults.get())) {
  server->start();
  if (daemon::is_logged(log_level::info)) {
    daemon::log_line(log_level::info,
                     fmt::format("filesystem of {} pages of {} begins, {} daemon threads with {}",
                                 settings.cache_size / settings.page_size,
                                 format_size(settings.page_size), server->threads(),
                                 server->backend() == io_backend::uring ? "io_uring" : "pread"));
    for (auto const& note : server->notes()) daemon::log_line(log_level::info, note);
  }
  daemon::drain_at_exit(server->writes(), true);
}

filesystem::state::~state() {
  for (auto const& line : unreleased()) daemon::say("never unmapped: {}", line);
  if (!server) return;
  // While this thread writes, an exit of the program in another one writes, too, and waits.
  server->stop();
  server->writes().finish();
  daemon::drain_at_exit(server->writes(), false);
}

statistics filesystem::state::counted() const {
  statistics s;
  device.get<owner::counter_owner>().add_to(s);
  return s;
}

std::vector<std::string> filesystem::state::unreleased() const {
  std::vector<std::string> lines;
  try {
    statistics const so_far = counted();
    if (so_far.maps == so_far.unmaps) return lines;
    auto const times = device.get<owner::pins_owner>().mappings();
    for (std::size_t frame = 0; frame < times.size(); ++frame) {
      if (times[frame] == 0) continue;
      auto const h = device.get<owner::page_cache_owner>().header(frame);
      auto const name = server->files().name_of(h.version);
      auto const begin = h.page * settings.page_size;
      lines.push_back(fmt::format(
          "{}: bytes {}..{}, {} gmmap{}", name.empty() ? "a file that is closed" : name, begin,
          begin + settings.page_size - 1, times[frame], times[frame] == 1 ? "" : "s"));
    }
  } catch (std::exception const&) {  // a device that has failed cannot say
  }
  return lines;
}

void filesystem::state::want_windows(int fd, std::uint64_t offset, std::uint64_t length) const {
  file_status status{};
  auto const allowed =
      daemon::may_register(device.ref().link.shared, fd, device.windows()->which());
  auto const file = server->files().borrow(fd);
  if (allowed.version == 0 || !allowed.at_once || !file || file->read_descriptor() < 0 ||
      server->files().stat(fd, status) != 0 || offset >= status.size)
    return;
  auto const left = status.size - offset;
  device.windows()->touched(allowed.version, file, offset,
                            length == 0 || length > left ? left : length);
}

}  // namespace gpufs
