#include <gpufs/config.hpp>

#include <apps/common/build_facts.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

/// Why the text is no value of an integer option, or an empty text. CLI11 reads numbers as
/// strtoll() does: those beyond 64 bits become the largest one, and negative ones become large
/// unsigned ones.
std::string why_no_integer(std::string const& text, bool is_unsigned) {
  char* end = nullptr;
  errno = 0;
  if (is_unsigned)
    static_cast<void>(std::strtoull(text.c_str(), &end, 0));
  else
    static_cast<void>(std::strtoll(text.c_str(), &end, 0));
  if (text.empty() || *end != 0) return "must be a whole number";
  if (is_unsigned && text.find('-') != text.npos) return "must be at least 0";
  return errno == ERANGE ? "has more than 64 bits, --help says what is allowed" : "";
}

/// The first option with a value that is no number of its type, and why. Empty if there is none.
std::string wrong_number(CLI::App const& app) {
  for (auto const* const option : app.get_options()) {
    auto const type = option->get_type_name();
    bool const is_unsigned = type.starts_with("UINT");
    if (!is_unsigned && !type.starts_with("INT")) continue;
    for (auto const& text : option->results()) {
      auto const why = why_no_integer(text, is_unsigned);
      if (!why.empty()) return fmt::format("{}={}: {}", option->get_name(), text, why);
    }
  }
  for (auto const* const command : app.get_subcommands()) {
    auto wrong = wrong_number(*command);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

/// The first option of a file or a folder whose value is an empty text; empty if there is none. The
/// programs take an empty text for an option that was not given. Settings have an empty type, and
/// some of them may be empty.
std::string empty_path(CLI::App const& app) {
  constexpr std::string_view of_paths[] = {"--config",  "--csv",       "--data",    "--dir",
                                           "--file",    "--input",     "--json",    "--json-to",
                                           "--out",     "--output",    "--picture", "--profile",
                                           "--ram-dir", "--spill-dir", "--tmpfs"};
  for (auto const* const option : app.get_options()) {
    if (option->get_type_name() == " ") continue;
    if (std::ranges::find(of_paths, option->get_name()) == std::end(of_paths)) continue;
    if (std::ranges::find(option->results(), "") != option->results().end())
      return fmt::format("{}=: must name a file or folder", option->get_name());
  }
  for (auto const* const command : app.get_subcommands()) {
    auto empty = empty_path(*command);
    if (!empty.empty()) return empty;
  }
  return {};
}

/// A line about a command line that CLI11 refuses.
std::string text_of(CLI::ParseError const& e, CLI::App const& app) {
  auto number = e.get_name() == "ConversionError" ? wrong_number(app) : std::string();
  return number.empty() ? std::string(e.what()) + "; --help lists what is allowed" : number;
}

/// Standard streams that are closed get a descriptor that fails as a closed one does. Else a file
/// that is opened later would have its number, and what is printed would stand in that file.
void take_closed_streams() {
  for (int const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    int const way = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    static_cast<void>(::open("/dev/null", way));  // the lowest number that is free
  }
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, std::function<int()> const& body,
                int failed) {
  take_closed_streams();
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
    if (auto const wrong = wrong_number(app); !wrong.empty()) throw usage_error(wrong);
    if (auto const empty = empty_path(app); !empty.empty()) throw usage_error(empty);
    return with_output_written(body());
  } catch (CLI::ExtrasError const&) {
    return not_expected();
  } catch (CLI::RequiredError const& e) {
    // What is missing may be there, but misspelt.
    if (!app.remaining(true).empty()) return not_expected();
    report(text_of(e, app));
    return status_usage;
  } catch (CLI::ParseError const& e) {
    if (e.get_exit_code() == 0) return with_output_written(app.exit(e));  // --help, --version
    report(text_of(e, app));
    return status_usage;
  } catch (usage_error const& e) {
    report(e.what());
    return status_usage;
  } catch (config_error const& e) {
    report(e.what());
    return status_usage;
  } catch (std::bad_alloc const&) {
    report("out of host memory");
    return failed;
  } catch (std::system_error const& e) {
    // That of fmt::print() does not name what could not be written.
    report(std::ferror(stdout) == 0 ? e.what() : "standard output: " + e.code().message());
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
