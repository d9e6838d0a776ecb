// Runs the mosaic's kernel.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <apps/mosaic/lsh_index.hpp>
#include <apps/mosaic/tile.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gpufs::apps {

/// How the kernel gets at a histogram in tiles.hist.
enum class match_access { gread, gmmap, array };

struct match_shape {
  unsigned blocks = 1;
  unsigned rows = 8;    ///< of 32 threads, in a block: 1 to most_match_rows
  bool by_warp = true;  ///< each warp reads its own candidates
};

struct match_result {
  std::vector<tile_match> best;
  std::uint64_t compared = 0;  ///< candidates whose histogram was read
  double kernel_seconds = 0;
  double seconds = 0;  ///< places to the device, kernel, matches back
};

class match_run {
 public:
  /// Brings the index to the device. Throws device_error if it has no room.
  match_run(lsh_index const& index, match_shape shape);
  ~match_run();
  match_run(match_run const&) = delete;
  match_run& operator=(match_run const&) = delete;

  /// Histograms from tiles.hist, open as `fd`. gmmap needs pages of 4 KiB or more. Throws
  /// device_error, or std::runtime_error naming the tile that could not be read.
  [[nodiscard]] match_result from_file(std::span<rgba_tile const> places, match_access how,
                                       fs_ref const& fs, int fd);

  /// All of tiles.hist lies at `records`, in device memory. Throws device_error.
  [[nodiscard]] match_result resident(std::span<rgba_tile const> places, std::byte const* records);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs::apps
