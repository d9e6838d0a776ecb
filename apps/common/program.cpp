#include <gpufs/config.hpp>

#include <apps/common/build_facts.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

namespace gpufs::apps {

int run_program(CLI::App& app, int argc, char** argv, std::function<int()> const& body,
                int failed) {
  auto const report = [&](std::string_view what) { print_error("{}: {}\n", app.get_name(), what); };
  // What stdio still holds at exit would be lost without a word.
  auto const with_output_written = [&](int status) {
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    report(errno == 0 ? "standard output: could not be written"
                      : fmt::format("standard output: {}", error_text(errno)));
    return status == 0 ? failed : status;
  };
  auto const not_expected = [&] {
    // CLI11's own text has them in the reverse order.
    auto const extra = app.remaining(true);
    report(fmt::format("{} not expected: {}; --help lists what is",
                       extra.size() == 1 ? "an argument was" : "arguments were",
                       fmt::join(extra, " ")));
    return status_usage;
  };
  app.set_version_flag("--version", [&] { return app.get_name() + " " + version_text(); });
  try {
    app.parse(argc, argv);
    return with_output_written(body());
  } catch (CLI::ExtrasError const&) {
    return not_expected();
  } catch (CLI::RequiredError const& e) {
    // What is missing may be there, but misspelt.
    if (!app.remaining(true).empty()) return not_expected();
    app.exit(e);
    return status_usage;
  } catch (CLI::ParseError const& e) {
    return with_output_written(app.exit(e) == 0 ? 0 : status_usage);
  } catch (usage_error const& e) {
    report(e.what());
    return status_usage;
  } catch (config_error const& e) {
    report(e.what());
    return status_usage;
  } catch (std::bad_alloc const&) {
    report("out of host memory");
    return failed;
  } catch (std::exception const& e) {
    report(e.what());
    return failed;
  }
}

std::uint64_t size_option(std::string_view option, std::string_view text, std::uint64_t low,
                          std::uint64_t high) {
  std::uint64_t const bytes = parse_size(text, option);
  if (bytes < low || bytes > high) {
    throw usage_error(fmt::format("{}={}: must be from {} to {} bytes", option, text,
                                  format_size(low), format_size(high)));
  }
  return bytes;
}

std::uint64_t seconds_option(std::string_view option, std::string_view text,
                             std::uint64_t most_hours) {
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view const unit(end, std::size_t(text.data() + text.size() - end));
  std::uint64_t const seconds = unit.empty() || unit == "s" ? 1
                                : unit == "m"               ? 60
                                : unit == "h"               ? 3600
                                                            : 0;
  if (error != std::errc{} || seconds == 0 || number < 1 || number > most_hours * 3600 / seconds) {
    throw usage_error(
        fmt::format("{}={}: must be from 1 second to {} hours, such as 90, 90s, 2m or 1h", option,
                    text, most_hours));
  }
  return number * seconds;
}

void check_option(std::string_view option, std::int64_t value, std::int64_t low,
                  std::int64_t high) {
  if (value < low || value > high)
    throw usage_error(fmt::format("{}={}: must be from {} to {}", option, value, low, high));
}

void check_threads(std::int64_t threads, std::int64_t most) {
  if (threads < 32 || threads > most || threads % 32 != 0) {
    throw usage_error(
        fmt::format("--threads={}: must be a multiple of 32 from 32 to {}", threads, most));
  }
}

std::string error_text(std::int64_t error) {
  return std::generic_category().message(static_cast<int>(error < 0 ? -error : error));
}

}  // namespace gpufs::apps
