// What a storage may hold after a loss of power, as follows from a log of changes.
#pragma once

#include <test/crash/file_change.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpufs::test {

inline constexpr std::uint64_t no_time = ~0ull;

/// A change with its times. Times are of one clock, and no two events have the same.
struct logged_change : file_change {
  std::uint64_t begin = 0;
  std::uint64_t end = no_time;
  std::int64_t result = 0;
};

/// What becomes of changes that no sync has made durable.
/// all   They are lost.
/// none  They are there.
/// some  The seed decides, for each sector of 512 bytes and for each name.
struct loss {
  enum class kind { all, none, some };
  kind what = kind::all;
  std::uint64_t seed = 0;
};

/// Bytes of a file that a sync covers survive: those of writes that ended before the sync began,
/// once the sync has ended. So do names, by a sync of their folder. A rename happens as a whole or
/// not at all. Nothing else is promised: other changes may survive in any combination.
class crash_disk {
 public:
  using bytes = std::vector<std::byte>;
  using names = std::map<std::string, std::uint64_t>;  ///< the inode by path

  explicit crash_disk(std::vector<logged_change> log);

  /// Moments are between events. At moment m the first m events have happened: 0 to moments() - 1.
  [[nodiscard]] std::size_t moments() const { return times_.size() + 1; }
  /// The time of the event that ends the moment, or no_time.
  [[nodiscard]] std::uint64_t end_of(std::size_t moment) const {
    return moment < times_.size() ? times_[moment] : no_time;
  }

  /// What is in a file after a crash at this moment. `before`: what it held before the log.
  [[nodiscard]] bytes image(std::uint64_t inode, bytes before, std::size_t moment,
                            loss const& lost) const;
  /// Which names there are after a crash.
  [[nodiscard]] names named(names before, std::size_t moment, loss const& lost) const;

 private:
  [[nodiscard]] bool survives(std::size_t i, std::uint64_t synced, std::uint64_t now) const;

  std::vector<logged_change> log_;
  std::vector<std::uint64_t> times_;
  std::vector<std::size_t> syncs_;  ///< places in log_
};

/// The log that the preloaded file_log.cpp has left in a file.
[[nodiscard]] std::vector<logged_change> read_log(std::string const& path);

}  // namespace gpufs::test
