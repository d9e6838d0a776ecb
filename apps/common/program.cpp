#include <apps/common/program.hpp>

#include <gpufs/config.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

namespace gpufs::apps {

int run_program(CLI::App& app, int argc, char** argv, std::function<int()> const& body, int failed) {
  auto const report = [&](char const* what) { fmt::print(stderr, "{}: {}\n", app.get_name(), what); };
  try {
    app.parse(argc, argv);
    return body();
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : status_usage;
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

std::uint64_t size_option(std::string_view option, std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t const bytes = parse_size(text, option);
  if (bytes < low || bytes > high) {
    throw usage_error(fmt::format("{}={}: must be from {} to {} bytes", option, text, format_size(low), format_size(high)));
  }
  return bytes;
}

void check_option(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) throw usage_error(fmt::format("{}={}: must be from {} to {}", option, value, low, high));
}

void check_threads(std::int64_t threads, std::int64_t most) {
  if (threads < 32 || threads > most || threads % 32 != 0) {
    throw usage_error(fmt::format("--threads={}: must be a multiple of 32 from 32 to {}", threads, most));
  }
}

std::string error_text(std::int64_t error) {
  return std::generic_category().message(static_cast<int>(error < 0 ? -error : error));
}

}  // namespace gpufs::apps
