// gpufs-mapping WORKLOAD: programs of the papers on shared memory, hand-written and with
// gpufs::shared_memory.
#include <gpufs/device.hpp>

#include <apps/common/json_line.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/mapping/all.hpp>
#include <apps/mapping/report.hpp>
#include <apps/mapping/runs.hpp>
#include <apps/mapping/session.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstring>

namespace {

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::apps::workloads;

int list() {
  for (auto const* const d : all_workloads()) {
    fmt::print("{:<12} {}\n", d->name, d->what);
    for (auto const& p : d->parameters)
      fmt::print("{:<12}   {:<10} {} ({} to {}; smoke {}, paper {})\n", "", p.name, p.what, p.low,
                 p.high, p.smoke, p.paper);
  }
  return 0;
}

measured run_on_cpu(description const& d, setup const& of) {
  measured m;
  auto const program = d.make(of);
  phase_clock clock;
  clock.start();
  program->reference();
  m.seconds = clock.stop();
  m.phases[std::size_t(phase::cpu)] = m.seconds;
  return m;
}

void compare_with_hand(description const& d, setup const& of, workload& program, checks& c) {
  auto const hand = run_once(d, of, {.how = variant::hand});
  auto const got = program.results(), wanted = hand.program->results();
  c.equal("results", got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size() && i < wanted.size(); ++i) {
    bool const is_same = got[i].size() == wanted[i].size() &&
                         std::memcmp(got[i].data(), wanted[i].data(), got[i].size()) == 0;
    c.expect(is_same, fmt::format("result {} differs from that of the variant hand", i));
  }
}

// Managed memory has no protocol: the driver moves what it likes.
void check_moved(one_run const& r, way const& how, checks& c) {
  auto const& moved = r.result.moved;
  if (how.backing != memory_backing::managed) return r.program->check_counters(*r.in, moved, c);
  c.equal("bytes sent and fetched", moved.bytes_h2d + moved.bytes_d2h, 0);
  c.equal("faults", moved.faults_read + moved.faults_write, 0);
}

measured measure(description const& d, setup const& of, way const& how, bool is_checked) {
  if (how.how == variant::cpu) return run_on_cpu(d, of);
  auto r = run_once(d, of, how);
  if (is_checked) {
    checks c;
    r.program->check(*r.in, c);
    if (r.in->is_shared()) check_moved(r, how, c);
    if (how.how != variant::hand) compare_with_hand(d, of, *r.program, c);
    r.result.is_verified = c.passed();
    r.result.failures = c.failures();
  }
  r.program.reset();
  return r.result;
}

int run(CLI::App const& app, options const& o) {
  if (o.workload == "list") {
    for (auto const* const option : app.get_options())
      if (option->count() != 0 && !option->get_positional())
        throw usage_error(fmt::format("{}: means nothing for list", option->get_name()));
    return list();
  }
  auto const& d = workload_named(o.workload);
  check_option("--runs", o.runs, 1, 1000);
  auto const of = setup_of(o, d);
  auto const ways = ways_of(o, d);
  static_cast<void>(device_to_run_on());
  report shown(o, d, of, ways);
  for (std::int64_t round = o.warm_up ? -1 : 0; round < o.runs; ++round) {
    for (std::size_t w = 0; w < ways.size(); ++w) {
      auto const m = measure(d, of, ways[w], o.check && round >= 0);
      if (round >= 0) shown.add(w, m);
    }
  }
  return shown.finish();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs a program of the papers on shared memory, hand-written and with gpufs::shared_memory.\n"
      "`gpufs-mapping list` prints the workloads and their parameters.",
      "gpufs-mapping");
  options o;
  add_options(app, o);
  return run_program(app, argc, argv, [&] { return run(app, o); });
}
