// Bytes of objects come from files and go to them, in lanes.
#pragma once

#include <gpufs/mapping/file_lane.hpp>
#include <gpufs/mapping/file_pieces.hpp>
#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping/page_work.hpp>
#include <gpufs/mapping/staging.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace gpufs::shared {

/// What threads do with parts of an object that were given to them under the mutex of the address
/// space. They need no mutex for it: nobody else touches these bytes, and the object stays. Only
/// new_hashes() needs it.
class file_transfers {
 public:
  /// The device is the one of the address space. At most `threads` work for one caller.
  file_transfers(guarded_range& range, int device, std::uint32_t threads)
      : range_(range), device_(device), threads_(threads) {}

  /// Hashes of the pages of so many bytes, all of them zeros. Throws device_error.
  [[nodiscard]] buffer<page_hash> new_hashes(std::uint64_t bytes);

  /// Runs work() in as many threads as there are jobs, each with a lane. A thread that gets no lane
  /// leaves its jobs to the others.
  void in_lanes(std::size_t jobs, std::function<void(file_lane&)> const& work);
  /// work() in this thread, which is one of the library's.
  void in_this_thread(std::function<void(file_lane&)> const& work);

  /// Starts to bring a piece, through `to`, which is free when to.copied has passed. Returns 0, or
  /// the error of the file. Throws device_error.
  [[nodiscard]] int start_read(object const& o, fill_piece const& piece, file_lane& lane,
                               staging_piece& to, bool& is_direct);
  /// Writes the pages of a piece that differ from what the file had. Sets all of the piece's
  /// results. Hashes are kept as soon as the file has the pages. Throws device_error.
  void write_changed(object const& o, write_piece& piece, file_lane& lane);

 private:
  [[nodiscard]] int start_at_host(object const& o, fill_piece const& piece, file_lane& lane,
                                  staging_piece& to, bool& is_direct);
  [[nodiscard]] std::uint32_t find_changed(object const& o, write_piece const& piece,
                                           file_lane& lane);

  guarded_range& range_;
  int device_;
  std::uint32_t threads_;
  lane_pool lanes_;
  std::optional<page_hasher> hasher_;  ///< since the first object that needs it
};

}  // namespace gpufs::shared
