// The log of the process, on stderr: notes, and what happens to filesystems.
#pragma once

#include <gpufs/config.hpp>

#include <string>

namespace gpufs::daemon {

/// Sets what is logged from now on: lines of this level and those before it. The process has one
/// log. Any thread calls.
void set_log_level(log_level level) noexcept;

/// Whether lines of a level are logged. For callers whose lines cost something to make.
[[nodiscard]] bool is_logged(log_level level) noexcept;

/// Logs a line, if its level is logged. Never waits for a device and never throws; a line that
/// cannot be written is lost.
void log_line(log_level level, std::string const& line) noexcept;

}  // namespace gpufs::daemon
