#include <gpufs/file.hpp>

#include <test/history/check.hpp>
#include <test/history/effects.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <numeric>

namespace gpufs::history {

namespace {

constexpr std::size_t most_problems = 8;

/// A look of one call at one byte.
struct look {
  std::size_t call;
  std::uint64_t at;
};

class checker {
 public:
  checker(program const& p, history const& h) : p_(p), h_(h), effects_(p, h) {}

  std::vector<std::string> run() {
    problems_ = effects_.problems();
    relate();
    std::vector<std::size_t> order(p_.calls.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // A read knows of the reads that ended before it began.
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return h_[a].end < h_[b].end; });
    for (auto const i : order) check_call(i);
    if (problems_.size() > most_problems) problems_.resize(most_problems);
    return problems_;
  }

 private:
  using effects = std::vector<effect>;

  /// All relations once, as matrices.
  void relate() {
    auto const& all = effects_.all();
    auto const n = all.size();
    before_.assign(n * n, false);
    for (std::size_t x = 0; x < n; ++x)
      for (std::size_t y = 0; y < n; ++y) before_[x * n + y] = effects_.before(all[x], all[y]);
    for (auto const& e : all) {
      for (auto const edge : {e.first, e.last, e.cut, e.extends})
        if (edge != never) edges_.push_back(edge);
    }
    edges_.push_back(0);
    std::sort(edges_.begin(), edges_.end());
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  }
  [[nodiscard]] bool before(std::size_t x, std::size_t y) const {
    return before_[x * effects_.all().size() + y];
  }

  void report(std::size_t call, std::string const& text) {
    problems_.push_back(fmt::format("#{}: {}", call, text));
  }

  void check_call(std::size_t i) {
    auto const& c = p_.calls[i];
    auto const result = h_[i].result;
    bool const crash = c.what == call_kind::crash;
    bool const reads = c.what == call_kind::read || c.what == call_kind::gather || crash;
    must_.assign(effects_.all().size(), false);
    if (reads || c.what == call_kind::size) {
      for (std::size_t x = 0; x < must_.size(); ++x)
        must_[x] = effects_.must_see(effects_.all()[x], i);
    }
    if (c.what == call_kind::gather && (result == -EINVAL || result == -EIO))
      return check_absent(i, std::uint64_t(c.offset) + c.count * c.stride - 1);
    if (result < 0) {
      if (!may_fail(c, result)) report(i, fmt::format("failed with {}", result));
      return;
    }
    if (c.what == call_kind::write && std::uint64_t(result) != c.count && !p_.fails())
      report(i, fmt::format("wrote {} of {} bytes", result, c.count));
    if (reads) check_read(i);
    if (c.what == call_kind::size || crash) check_size(i);
  }

  [[nodiscard]] bool may_fail(call const& c, std::int64_t result) const {
    // A handle whose open has failed.
    for (std::size_t k = 0; k < p_.calls.size() && c.handle >= 0 && c.what != call_kind::open; ++k)
      if (p_.calls[k].what == call_kind::open && p_.calls[k].handle == c.handle && h_[k].result < 0)
        return true;
    if (!p_.fails()) return false;
    // fs.sync() says only that pages stay dirty.
    return result == (c.what == call_kind::sync_all ? -EIO : -ENOSPC);
  }

  void check_read(std::size_t i) {
    auto const& bytes = h_[i].bytes;
    auto const begin = std::uint64_t(p_.calls[i].offset);
    bool was_wrong = false;
    std::size_t segment = never, value = never;
    for (std::uint64_t k = 0; k < bytes.size(); ++k) {
      auto const at = begin + k * p_.calls[i].stride;
      auto const tag = bytes[k] == std::byte{0} ? 0 : tag_of(bytes[k], at);
      auto const s =
          std::size_t(std::upper_bound(edges_.begin(), edges_.end(), at) - edges_.begin());
      bool const same = s == segment && tag == value;
      segment = s, value = tag;
      std::string const wrong = same ? std::string() : wrong_value({i, at}, tag);
      std::string const back = wrong.empty() ? went_back({i, at}, tag) : std::string();
      if (!wrong.empty() || (!back.empty() && !was_wrong))
        report(i, fmt::format("byte {}: {}{}", at, wrong, back));
      if (!same || !back.empty()) was_wrong = !wrong.empty() || !back.empty();
    }
    note_seen(i);
    if (bytes.size() < p_.calls[i].count) check_absent(i, begin + bytes.size());
  }

  void check_absent(std::size_t i, std::uint64_t at) {
    std::string found;
    if (!gone(i, at, false, found))
      report(i, fmt::format("byte {} was beyond the end, but {}", at, found));
  }

  void check_size(std::size_t i) {
    auto const size = std::uint64_t(h_[i].result);
    std::string found;
    if (!gone(i, size, false, found))
      report(i, fmt::format("the size was {}, but {}", size, found));
    if (size > 0 && !present(i, size - 1))
      report(i, fmt::format("the size was {}, but nothing has made the file so long", size));
  }

  [[nodiscard]] std::string name(std::size_t x) const {
    auto const& e = effects_.all()[x];
    return e.call == no_call ? std::string("the initial contents") : fmt::format("#{}", e.call);
  }
  [[nodiscard]] bool begun(effect const& e, std::size_t i) const { return e.begin <= h_[i].end; }

  /// Empty, or why the byte cannot have this tag; 0 stands for zero.
  std::string wrong_value(look const& l, std::uint32_t tag) const {
    std::string found;
    if (tag == 0) {
      return gone(l.call, l.at, true, found) ? std::string()
                                             : fmt::format("is zero, but {}", found);
    }
    auto const& all = effects_.all();
    for (std::size_t e = 0; e < all.size(); ++e) {
      if (all[e].tag != tag || !all[e].covers(l.at)) continue;
      if (!begun(all[e], l.call)) return fmt::format("is of {}, which began later", name(e));
      for (std::size_t x = 0; x < all.size(); ++x)
        if ((all[x].covers(l.at) || all[x].cuts(l.at)) && must_[x] && before(e, x))
          return fmt::format("is of {}, but must be of {} or later", name(e), name(x));
      return {};
    }
    return fmt::format("has tag {}, and no write has put that there", tag);
  }

  /// Whether a byte may be beyond the end, or (`filled`) zero because it was.
  bool gone(std::size_t i, std::uint64_t at, bool filled, std::string& why) const {
    auto const& all = effects_.all();
    why = "no write and no truncation made it so";
    for (std::size_t a = 0; a < all.size(); ++a) {
      if (!all[a].cuts(at) || !begun(all[a], i)) continue;
      std::size_t x = 0;
      for (; x < all.size(); ++x)
        if ((all[x].covers(at) || (!filled && all[x].extends > at)) && must_[x] && before(a, x))
          break;
      if (x < all.size())
        why = fmt::format("must have {} or later", name(x));
      else if (!filled || became_zero(i, at, a))
        return true;
    }
    return false;
  }

  /// Whether something may have made the file longer than `at` after effect `a` had cut it off.
  [[nodiscard]] bool became_zero(std::size_t i, std::uint64_t at, std::size_t a) const {
    auto const& all = effects_.all();
    // Reads under way, and kernels that have the file open, may go on with its old size.
    if (!must_[a]) return true;
    for (std::size_t x = 0; x < all.size(); ++x)
      if (all[x].extends > at && begun(all[x], i) && !before(x, a)) return true;
    return false;
  }

  [[nodiscard]] bool present(std::size_t i, std::uint64_t at) const {
    auto const& all = effects_.all();
    for (std::size_t e = 0; e < all.size(); ++e) {
      if (!(all[e].covers(at) || all[e].extends > at) || !begun(all[e], i)) continue;
      std::size_t x = 0;
      while (x < all.size() && !(all[x].cuts(at) && must_[x] && before(e, x))) ++x;
      if (x == all.size()) return true;
    }
    return false;
  }

  // What one read of a filesystem's kernels, or of the host file, has seen, no later one misses.
  struct sighting {
    std::size_t effect;
    std::uint64_t end;
    std::size_t call;
  };
  using place = std::pair<std::uint32_t, std::uint64_t>;  ///< filesystem, byte

  std::string went_back(look const& l, std::uint32_t tag) const {
    if (p_.calls[l.call].what == call_kind::crash) return {};
    auto const found = seen_.find({p_.calls[l.call].filesystem, l.at});
    if (found == seen_.end() || tag == 0) return {};
    auto const& all = effects_.all();
    for (std::size_t e = 0; e < all.size(); ++e) {
      if (all[e].tag != tag || !all[e].covers(l.at)) continue;
      for (auto const& s : found->second)
        if (s.end < h_[l.call].begin && before(e, s.effect))
          return fmt::format("is of {}, though #{} had seen {} there", name(e), s.call,
                             name(s.effect));
    }
    return {};
  }

  void note_seen(std::size_t i) {
    if (p_.calls[i].what == call_kind::crash) return;
    auto const& all = effects_.all();
    auto const filesystem = p_.calls[i].filesystem;
    for (std::uint64_t k = 0; k < h_[i].bytes.size(); ++k) {
      auto const at = std::uint64_t(p_.calls[i].offset) + k * p_.calls[i].stride;
      if (h_[i].bytes[k] == std::byte{0}) continue;
      auto const tag = tag_of(h_[i].bytes[k], at);
      if (tag == initial_tag) continue;
      for (std::size_t e = 0; e < all.size(); ++e) {
        if (all[e].tag != tag || !all[e].covers(at)) continue;
        bool const at_once = all[e].kind == effect_kind::gwrite || all[e].kind == effect_kind::host;
        if (filesystem != 0 && (all[e].filesystem != filesystem || !at_once)) continue;
        auto& list = seen_[{filesystem, at}];
        if (std::none_of(list.begin(), list.end(), [&](auto const& s) { return s.effect == e; }))
          list.push_back({e, h_[i].end, i});
      }
    }
  }

  program const& p_;
  history const& h_;
  effect_list effects_;
  std::vector<bool> before_, must_;
  std::vector<std::uint64_t> edges_;
  std::map<place, std::vector<sighting>> seen_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check(program const& p, history const& h) { return checker(p, h).run(); }

}  // namespace gpufs::history
