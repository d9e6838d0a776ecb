// What the calls of a history do to the bytes of the file, and which read must see which of them.
#pragma once

#include <test/history/program.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::history {

inline constexpr std::uint64_t never = ~0ull;
inline constexpr std::size_t no_call = ~std::size_t{0};

enum class effect_kind {
  initial,
  gwrite,
  once,      ///< a gwrite through O_GWRONCE
  host,      ///< fs.write
  outside,   ///< another process
  truncate,  ///< gftruncate
  emptied,   ///< an open with O_TRUNC
};

/// Bytes [first, last) get the tag. Bytes from `cut` on are gone. Bytes below `extends` that were
/// beyond the end are zeros.
struct effect {
  effect_kind kind = effect_kind::initial;
  std::size_t call = no_call;
  std::uint32_t filesystem = 0;
  std::uint32_t tag = 0;
  std::uint64_t first = 0, last = 0;
  std::uint64_t cut = never;
  std::uint64_t extends = 0;
  std::uint64_t begin = 0, end = 0;
  std::uint64_t published = never;  ///< from then on the host file has it
  std::uint64_t durable = never;    ///< from then on it survives a loss of power
  std::uint64_t closed = never;     ///< once: the last close of its descriptor has ended
  bool certain = true;              ///< false: may have failed

  [[nodiscard]] bool covers(std::uint64_t at) const { return first <= at && at < last; }
  [[nodiscard]] bool cuts(std::uint64_t at) const { return cut <= at; }
};

/// The effects of a history, and the relations between them and its calls.
class effect_list {
 public:
  effect_list(program const& p, history const& h);

  [[nodiscard]] std::vector<effect> const& all() const { return effects_; }
  /// What is wrong with the places of appends, a line each.
  [[nodiscard]] std::vector<std::string> const& problems() const { return problems_; }

  /// Whether x was over, for all that look, before y began.
  [[nodiscard]] bool before(effect const& x, effect const& y) const;
  /// Whether call `r`, a read, a look at the size or a crash, must see x or what has replaced it.
  [[nodiscard]] bool must_see(effect const& x, std::size_t r) const;

 private:
  struct interval {
    std::uint64_t begin, end;
    std::uint32_t filesystem;
    int flags;
    std::size_t call;
    bool clean;  ///< closed, and without an error
  };
  void find_opens();
  void add_write(std::size_t i);
  void add_open(std::size_t i);
  void publish(effect& e) const;
  void make_durable(effect& e) const;
  void place_appends();
  void place(effect& e, std::pair<std::uint64_t, std::uint64_t> seen);
  void check_place(effect const& e);
  [[nodiscard]] std::uint64_t all_closed(effect const& e, bool once) const;
  [[nodiscard]] bool looks_again(std::uint32_t actor, std::uint64_t since, std::size_t r) const;
  [[nodiscard]] bool revalidated(effect const& x, std::size_t r) const;
  [[nodiscard]] bool quiet(std::size_t open) const;
  [[nodiscard]] int flags_of(call const& c) const;

  program const& p_;
  history const& h_;
  std::vector<effect> effects_;
  std::vector<interval> opens_;
  std::vector<std::string> problems_;
};

}  // namespace gpufs::history
