// What one bulk call works with: an engine, and the parts under way.
#pragma once

#include <host-daemon/base/ended_request.hpp>
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/bulk/bulk_io.hpp>
#include <host-daemon/engine/file_read.hpp>
#include <host-daemon/engine/io_engine.hpp>
#include <host-daemon/engine/path_choice.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gpufs::daemon {

/// Cuts ranges into parts, and puts the parts' outcomes together.
class bulk_parts {
 public:
  struct part {
    std::size_t range = 0;
    std::uint64_t begin = 0;  ///< in the range
    std::uint64_t length = 0;
  };

  /// Parts of at most `longest` bytes, none behind byte `file_end`. Throws std::bad_alloc.
  bulk_parts(std::span<bulk_range> ranges, std::uint64_t longest,
             std::uint64_t file_end = std::numeric_limits<std::uint64_t>::max());

  [[nodiscard]] bool more() const noexcept { return range_ < ranges_.size(); }
  /// Returns the next part. Needs more().
  part next() noexcept;

  [[nodiscard]] std::uint64_t offset_of(part const& p) const noexcept {
    return ranges_[p.range].offset + p.begin;
  }
  [[nodiscard]] std::uint64_t position_of(part const& p) const noexcept {
    return ranges_[p.range].position + p.begin;
  }

  /// Says that `done` bytes of a part were moved, and the -errno that ended it, or 0.
  void end(part const& p, std::uint64_t done, std::int32_t error) noexcept;

  /// Whether a part before this one came short. Then this one is not to be written.
  [[nodiscard]] bool is_cut_off(part const& p) const noexcept {
    return outcomes_[p.range].end <= p.begin;
  }

  /// Sets the results of all ranges. Returns the error of the first one that met one, or 0.
  int set_results() noexcept;

 private:
  struct outcome {
    std::uint64_t end;       // the first byte that was not moved
    std::int32_t error = 0;  // that ended it there
  };
  void skip_empty() noexcept;
  /// Of a range, up to the end of the file.
  [[nodiscard]] std::uint64_t length_of(bulk_range const& r) const noexcept {
    return std::min(r.length, file_end_ - std::min(r.offset, file_end_));
  }

  std::span<bulk_range> ranges_;
  std::vector<outcome> outcomes_;  // by range
  std::uint64_t longest_, file_end_;
  std::size_t range_ = 0;  // of the next part
  std::uint64_t begin_ = 0;
};

/// Serves one call at a time.
class bulk_io::lane {
 public:
  /// `requests`: where reads are recorded, null: nowhere.
  lane(std::unique_ptr<io_engine> engine, path_choice paths, request_recorder* requests,
       bool with_ring)
      : has_ring{with_ring},
        engine_{std::move(engine)},
        paths_{std::move(paths)},
        requests_{requests} {}

  /// Reads ranges that fit `to`, nothing behind byte `file_end`. Sets their results, and returns
  /// the first error or 0. Throws std::bad_alloc, and has read nothing then.
  int read(local_file& file, std::span<bulk_range> ranges, bulk_memory const& to,
           std::uint64_t file_end);

  bool const has_ring;

 private:
  struct job {
    bulk_parts::part part;
    file_read read;
    ended_request recorded;  // of the operation under way
  };

  void prepare(std::size_t jobs);
  void start(std::size_t number) noexcept;
  void advance(std::size_t number) noexcept;
  bool absorb(std::size_t number, std::int64_t result) noexcept;
  void arrived(std::size_t number) noexcept;
  bool reap() noexcept;
  bool end_copies() noexcept;

  std::unique_ptr<io_engine> engine_;
  path_choice paths_;
  request_recorder* requests_;
  std::vector<job> jobs_;  // they keep their memory from one call to the next

  // Of the call.
  local_file* file_ = nullptr;
  bulk_memory const* to_ = nullptr;
  bulk_parts* parts_ = nullptr;
  std::vector<std::size_t> free_;     // jobs
  std::vector<std::size_t> copying_;  // jobs that the device copies
  std::size_t reading_ = 0;           // jobs whose read is with the engine
};

}  // namespace gpufs::daemon
