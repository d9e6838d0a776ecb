// The log, by spdlog.
#include <host-daemon/base/log.hpp>

#include <atomic>
#include <memory>

// A program that links this library may have another version of spdlog. So this copy of its
// headers has a namespace of its own.
#define spdlog gpufs_spdlog
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace gpufs::daemon {

namespace {

std::atomic<log_level> least{log_level::warn};

spdlog::level::level_enum level_of(log_level level) {
  switch (level) {
    case log_level::off: return spdlog::level::off;
    case log_level::error: return spdlog::level::err;
    case log_level::warn: return spdlog::level::warn;
    case log_level::info: return spdlog::level::info;
    case log_level::debug: break;
  }
  return spdlog::level::debug;
}

// Never destroyed: filesystems that live until the process ends may log at any time.
spdlog::logger& logger() {
  static auto* const made = [] {
    auto* const l = new spdlog::logger{"gpufs", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    l->set_level(spdlog::level::trace);  // is_logged() decides
    l->set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%n %P] [%l] %v");
    l->set_error_handler([](std::string const&) {});  // the line is lost
    return l;
  }();
  return *made;
}

}  // namespace

void set_log_level(log_level level) noexcept { least.store(level, std::memory_order_relaxed); }

bool is_logged(log_level level) noexcept {
  return level != log_level::off && level <= least.load(std::memory_order_relaxed);
}

void log_line(log_level level, std::string const& line) noexcept {
  if (!is_logged(level)) return;
  try {
    logger().log(level_of(level), line);
  } catch (...) {  // no memory for the line
  }
}

}  // namespace gpufs::daemon
