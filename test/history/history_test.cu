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

/// Runs a program with its end; what is wrong, and the history of a run that failed.
std::vector<std::string> run_once(machine& m, program const& p, std::string& text) {
  auto const whole = with_end(p);
  auto const h = m.run(whole);
  auto wrong = check(whole, h);
  if (!wrong.empty()) text = to_text(whole, &h) + lines(wrong);
  return wrong;
}

/// Whether one of so many runs of a program fails. Says why, by a program made as small as it gets.
bool fails(machine& m, program const& p, std::uint64_t repeats) {
  std::string found, smaller;
  while (repeats > 0 && run_once(m, p, found).empty()) --repeats;
  if (repeats == 0) return false;
  static_cast<void>(shrink(
      p, [&](program const& each) { return run_once(m, each, smaller); }, 3, 500));
  INFO("to run it again: GPUFS_TEST_SEED=", p.seed,
       " GPUFS_HISTORY_PROGRAMS=1 GPUFS_HISTORY_REPEAT=100");
  INFO("as it was:\n", found);
  FAIL_CHECK("a history that docs/consistency.md does not allow:\n",
             smaller.empty() ? found : smaller);
  return true;
}

}  // namespace

TEST_CASE("child: outsider") {
  if (test::is_part("outsider")) outsider_process::serve(std::atoi(test::given_path().c_str()));
}

TEST_CASE("history: every read of random programs gives what docs/consistency.md promises") {
  auto const programs = from_environment("GPUFS_HISTORY_PROGRAMS", test::scaled(24, 6));
  auto const seconds = from_environment("GPUFS_HISTORY_SECONDS", 600);
  auto const repeats = from_environment("GPUFS_HISTORY_REPEAT", 1);
  auto const most_failures = from_environment("GPUFS_HISTORY_FAILURES", 1);
  auto const start = std::chrono::steady_clock::now();
  machine m;
  std::uint64_t failures = 0, n = 0;
  for (; n < programs && failures < most_failures; ++n) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(seconds)) break;
    failures += fails(m, generate(test::seed() + n), repeats) ? 1 : 0;
  }
  MESSAGE(n, " programs");
}
