// Random programs of file calls by kernels, host threads, a second filesystem and another process,
// and their histories against docs/consistency.md. docs/testing.md says how to run many of them.
#include <test/history/check.hpp>
#include <test/history/run.hpp>
#include <test/history/shrink.hpp>

#include <test/support/child.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>

using namespace gpufs;
using namespace gpufs::history;

namespace {

std::uint64_t from_environment(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

std::string lines(std::vector<std::string> const& all) {
  std::string text;
  for (auto const& line : all) text += "  " + line + '\n';
  return text;
}

/// Runs a program with its end; what is wrong, and on request the history.
std::vector<std::string> run_once(machine& m, program const& p, std::string* text = nullptr) {
  auto const whole = with_end(p);
  auto const h = m.run(whole);
  auto wrong = check(whole, h);
  if (!wrong.empty() && text != nullptr) *text = to_text(whole, &h) + lines(wrong);
  return wrong;
}

}  // namespace

TEST_CASE("child: outsider") {
  if (test::is_part("outsider")) outsider_process::serve(std::atoi(test::given_path().c_str()));
}

TEST_CASE("history: every read of random programs gives what docs/consistency.md promises") {
  auto const programs = from_environment("GPUFS_HISTORY_PROGRAMS", test::scaled(120, 30));
  auto const seconds = from_environment("GPUFS_HISTORY_SECONDS", 0);
  auto const shrink_runs = unsigned(from_environment("GPUFS_HISTORY_SHRINK", 300));
  auto const most_failures = from_environment("GPUFS_HISTORY_FAILURES", 1);
  auto const start = std::chrono::steady_clock::now();
  machine m;
  std::uint64_t failures = 0, runs = 0;
  for (; runs < programs && failures < most_failures; ++runs) {
    auto const used = std::chrono::steady_clock::now() - start;
    if (seconds != 0 && used > std::chrono::seconds(seconds)) break;
    auto const p = generate(test::seed() + runs);
    std::string found;
    if (run_once(m, p, &found).empty()) continue;
    ++failures;
    std::string smaller;
    auto const small = shrink(
        p, [&](program const& each) { return run_once(m, each, &smaller); }, 3, shrink_runs);
    INFO("to run it again: GPUFS_TEST_SEED=", p.seed, " GPUFS_HISTORY_PROGRAMS=1");
    INFO("a run of the program:\n", found);
    for (unsigned i = 0; i < 10; ++i)
      if (!run_once(m, small, &smaller).empty()) break;
    FAIL_CHECK("a history that docs/consistency.md does not allow. Made smaller:\n", smaller);
  }
  MESSAGE(runs, " programs");
}
