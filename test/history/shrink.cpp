#include <test/history/shrink.hpp>

#include <algorithm>
#include <set>

namespace gpufs::history {

namespace {

class shrinker {
 public:
  shrinker(program p, trial const& run, unsigned attempts, unsigned most_runs)
      : best_(std::move(p)), run_(run), attempts_(attempts), left_(most_runs) {}

  program smallest() {
    in_order();
    bool smaller = true;
    while (smaller && left_ > 0) {
      smaller = false;
      for (std::size_t part = std::max<std::size_t>(best_.calls.size() / 2, 1); part > 0; part /= 2)
        smaller = drop(part) || smaller;
    }
    simpler_settings();
    in_order();
    return best_;
  }

 private:
  bool take_if_it_fails(program const& candidate) {
    for (unsigned i = 0; i < attempts_ && left_ > 0; ++i, --left_) {
      if (run_(candidate).empty()) continue;
      best_ = candidate;
      return true;
    }
    return false;
  }

  /// Takes away `part` calls at a time.
  bool drop(std::size_t part) {
    bool any = false;
    for (std::size_t from = 0; from < best_.calls.size() && left_ > 0;) {
      std::vector<bool> gone(best_.calls.size(), false);
      for (std::size_t i = from; i < std::min(from + part, gone.size()); ++i) gone[i] = true;
      if (take_if_it_fails(without(best_, gone)))
        any = true;
      else
        from += part;
    }
    return any;
  }

  /// Each call waits for the one before it.
  void in_order() {
    program candidate = best_;
    for (std::size_t i = 1; i < candidate.calls.size(); ++i) {
      auto const& before = candidate.actors[candidate.calls[i - 1].actor];
      if (before.phase <= candidate.actors[candidate.calls[i].actor].phase)
        candidate.calls[i].after = std::uint32_t(i);
    }
    take_if_it_fails(candidate);
  }

  void simpler_settings() {
    auto const attempt = [&](auto&& change) {
      program candidate = best_;
      change(candidate);
      take_if_it_fails(candidate);
    };
    attempt([](program& p) { p.settings.prefetch_size = 0; });
    attempt([](program& p) { p.settings.path = io_path::pull; });
    attempt([](program& p) { p.settings.policy = replacement::lra; });
    attempt([](program& p) { p.settings.cache_size = 64 * p.settings.page_size; });
    attempt([](program& p) { p.settings.write_memory = 65536; });
    attempt([](program& p) { p.tiles = false; });
    attempt([](program& p) { p.slow = false; });
    attempt([](program& p) { p.process = false; });
    attempt([](program& p) { p.fail_from = p.fail_until = 0; });
  }

  program best_;
  trial const& run_;
  unsigned attempts_, left_;
};

}  // namespace

program without(program const& p, std::vector<bool> const& gone) {
  program smaller = p;
  smaller.calls.clear();
  std::set<std::int32_t> open;
  std::vector<std::uint32_t> now(p.calls.size() + 1, 0);  // by old number + 1
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    auto c = p.calls[i];
    c.after = now[c.after];
    bool const goes = gone[i] || (c.handle >= 0 && c.what != call_kind::open &&
                                  open.find(c.handle) == open.end());
    if (!goes && c.what == call_kind::open) open.insert(c.handle);
    if (!goes) smaller.calls.push_back(c);
    now[i + 1] = goes ? c.after : std::uint32_t(smaller.calls.size());
  }
  return smaller;
}

program shrink(program p, trial const& run, unsigned attempts, unsigned most_runs) {
  return shrinker(std::move(p), run, attempts, most_runs).smallest();
}

}  // namespace gpufs::history
