#include <gpufs/file.hpp>

#include <test/history/overlaps.hpp>

#include <algorithm>

namespace gpufs::history {

namespace {

/// Bytes that a call of a kernel reads or writes in the page cache.
struct touched {
  std::uint64_t begin = 0, end = 0;
  bool writes = false;
};

touched bytes_of(program const& p, call const& c) {
  if (p.actors[c.actor].kind != actor_kind::block) return {};
  auto const at = std::uint64_t(c.offset);
  switch (c.what) {
    case call_kind::read:
    case call_kind::gather: return {at, at + c.count * c.stride, false};
    case call_kind::write:
      if (c.tag < first_placed_tag) return {p.initial_size, ~0ull, true};  // an append
      return {at, at + c.count, true};
    case call_kind::truncate: return {at, ~0ull, true};
    case call_kind::open: return {0, (c.flags & O_TRUNC) != 0 ? ~0ull : 0, true};
    default: return {};
  }
}

/// The calls that are kept, and which of them end before which begin.
class ordered_calls {
 public:
  explicit ordered_calls(program const& p) : p_(p) {}

  /// Adds a call, or leaves it out. Calls of the program come in their order.
  void add(call c) {
    if (c.after != 0) c.after = kept_[c.after - 1];
    auto before = behind(c);
    auto met = meets(c, before);
    if (met != 0) {
      c.after = met;
      before = behind(c);
      met = meets(c, before);
    }
    if (met != 0 && c.what == call_kind::open) {  // others need the handle
      c.flags &= ~O_TRUNC;
      met = 0;
    }
    if (met == 0) {
      calls_.push_back(c);
      before_.push_back(std::move(before));
    }
    kept_.push_back(met == 0 ? std::uint32_t(calls_.size()) : last_of(c.actor));
  }

  [[nodiscard]] std::vector<call> take() { return std::move(calls_); }

 private:
  /// 1 + number of the actor's last call, or 0.
  [[nodiscard]] std::uint32_t last_of(std::uint32_t actor) const {
    auto n = std::uint32_t(calls_.size());
    while (n != 0 && calls_[n - 1].actor != actor) --n;
    return n;
  }

  /// Which calls end before `c` begins.
  [[nodiscard]] std::vector<bool> behind(call const& c) const {
    std::vector<bool> before(calls_.size());
    for (auto const n : {last_of(c.actor), c.after}) {
      if (n == 0) continue;
      before[n - 1] = true;
      for (std::size_t i = 0; i < before_[n - 1].size(); ++i)
        if (before_[n - 1][i]) before[i] = true;
    }
    for (std::size_t i = 0; i < before.size(); ++i)
      if (p_.actors[calls_[i].actor].phase < p_.actors[c.actor].phase) before[i] = true;
    return before;
  }

  /// 1 + number of the last call that may run beside `c`, of which one writes what the other reads.
  [[nodiscard]] std::uint32_t meets(call const& c, std::vector<bool> const& before) const {
    auto const mine = bytes_of(p_, c);
    for (auto n = calls_.size(); n > 0; --n) {
      auto const& other = calls_[n - 1];
      if (before[n - 1] || other.filesystem != c.filesystem) continue;
      auto const its = bytes_of(p_, other);
      if (its.writes != mine.writes && its.begin < mine.end && mine.begin < its.end)
        return std::uint32_t(n);
    }
    return 0;
  }

  program const& p_;
  std::vector<call> calls_;
  std::vector<std::vector<bool>> before_;  ///< of each call: those that end before it begins
  /// Of each call of the program: 1 + its number, or that of its actor's last call if it is left
  /// out. Who waits for it waits for that.
  std::vector<std::uint32_t> kept_;
};

}  // namespace

program without_overlaps(program const& p) {
  ordered_calls ordered(p);
  for (auto const& c : p.calls) ordered.add(c);
  program result = p;
  result.calls = ordered.take();
  return result;
}

}  // namespace gpufs::history
