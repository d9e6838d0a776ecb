// Common to the programs: exit statuses, and how errors end them.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace gpufs::apps {

/// The command line asks for something that cannot be. what() names the option, its value and what
/// is allowed.
struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

inline constexpr int status_failed = 1;  ///< something did not work
inline constexpr int status_usage = 2;   ///< the command line or a setting is wrong

/// Adds --version, parses the command line and runs `body`, whose result is the exit status.
/// An error prints one line on stderr that begins with the name of the program. The status is
/// status_usage for usage_error, config_error and the errors of CLI11, else `failed`. The same
/// holds if stdout cannot be written.
int run_program(CLI::App& app, int argc, char** argv, std::function<int()> const& body,
                int failed = status_failed);

/// A number of bytes such as 64K, given as `option`. Throws usage_error unless it is from `low` to
/// `high`.
[[nodiscard]] std::uint64_t size_option(std::string_view option, std::string_view text,
                                        std::uint64_t low, std::uint64_t high);

/// A time such as 90, 90s, 2m or 1h, given as `option`, in seconds. Throws usage_error unless it is
/// from 1 second to `most_hours` hours.
[[nodiscard]] std::uint64_t seconds_option(std::string_view option, std::string_view text,
                                           std::uint64_t most_hours);

/// An integer option that was not given.
inline constexpr std::int64_t not_given = INT64_MIN;

inline void fill_in(std::int64_t& value, std::int64_t otherwise) {
  if (value == not_given) value = otherwise;
}

/// Throws usage_error unless `value`, given as `option`, is from `low` to `high`.
void check_option(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high);

/// Throws usage_error unless a block can have so many threads, given as --threads: a multiple of 32
/// from 32 to `most`.
void check_threads(std::int64_t threads, std::int64_t most = 1024);

/// "no such file or directory", for -errno or errno.
[[nodiscard]] std::string error_text(std::int64_t error);

}  // namespace gpufs::apps
