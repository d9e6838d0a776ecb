// Our programs at SIGTERM, SIGINT and SIGHUP: they write dirty pages, then the signal ends them.
#include <gpufs/gpufs.hpp>

#include <apps/common/drain_on_signal.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>
#include <test/support/records.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include <sys/wait.h>

using namespace gpufs;
using namespace gpufs::test;

TEST_CASE("child: program") {
  if (!is_part("program")) return;
  std::signal(SIGHUP, SIG_DFL);  // a suite under nohup ignores it
  apps::drain_on_signal signals;
  held_records records(given_path());
  signals.set([&] { records.drain(); });
  records.wait_until_dirty();
  this_thread_stream().synchronize();  // never returns
}

TEST_CASE(
    "SIGTERM, SIGINT and SIGHUP end a program after every byte that gwrite returned for has got "
    "into its file") {
  for (int const signal : {SIGTERM, SIGINT, SIGHUP}) {
    scratch_folder folder;
    auto const path = folder / "file";
    child program("program", path, {.signals_wait = true});
    wait_until([&] { return held_records::dirty(path) || !program.running(); }, "dirty pages");
    CHECK(pread_bytes(path, 0, ~0ull).empty());
    program.kill(signal);
    int const status = program.wait();
    CAPTURE(signal);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(held_records::problems(path) == "");
  }
}

TEST_CASE("drain_on_signal that no signal reaches ends quietly") {
  bool drained = false;
  {
    apps::drain_on_signal signals;
    signals.set([&] { drained = true; });
    signals.set({});
  }
  CHECK(!drained);
}
