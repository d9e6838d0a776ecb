// CUDA's cooperative groups on the emulated device, as the project uses them: thread block and
// tiles.
#pragma once

#include <gpufs/device/emulated/threads.hpp>
#include <gpufs/device/emulated/warp_functions.hpp>

namespace cooperative_groups {

class thread_block {
 public:
  void sync(std::source_location const& where = std::source_location::current()) const {
    __syncthreads(where);
  }
  [[nodiscard]] unsigned thread_rank() const { return gpufs::emulated::this_thread().rank; }
  [[nodiscard]] unsigned num_threads() const {
    dim3 const size = dim_threads();
    return size.x * size.y * size.z;
  }
  [[nodiscard]] unsigned size() const { return num_threads(); }
  [[nodiscard]] dim3 dim_threads() const { return gpufs::emulated::this_block().block_size; }
  [[nodiscard]] dim3 group_dim() const { return dim_threads(); }
  [[nodiscard]] dim3 group_index() const { return gpufs::emulated::this_block().index; }
  [[nodiscard]] dim3 thread_index() const { return gpufs::emulated::this_thread().index; }
};

[[nodiscard]] inline thread_block this_thread_block() { return {}; }

/// `Size` neighbouring lanes of a warp. Votes and matches number the lanes within the tile. Only
/// sync() orders memory, as on the GPU.
template <unsigned Size, class Parent = void>
class thread_block_tile {
  static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                "a tile has 1, 2, 4, 8, 16 or 32 threads");

 public:
  thread_block_tile() = delete;
  /// Drops the type of the group that the tile was cut from.
  template <class Other>
  thread_block_tile(thread_block_tile<Size, Other> const&) {}

  void sync(std::source_location const& where = std::source_location::current()) const {
    __syncwarp(mask(), where);
  }
  [[nodiscard]] unsigned thread_rank() const { return gpufs::emulated::this_thread().lane % Size; }
  [[nodiscard]] static constexpr unsigned num_threads() { return Size; }
  [[nodiscard]] static constexpr unsigned size() { return Size; }
  [[nodiscard]] unsigned meta_group_rank() const {
    return gpufs::emulated::this_thread().rank / Size;
  }
  [[nodiscard]] unsigned meta_group_size() const {
    return (thread_block().num_threads() + Size - 1) / Size;
  }

  template <class T>
  T shfl(T value, int source,
         std::source_location const& where = std::source_location::current()) const {
    return __shfl_sync(mask(), value, source, Size, where);
  }
  template <class T>
  T shfl_up(T value, unsigned delta,
            std::source_location const& where = std::source_location::current()) const {
    return __shfl_up_sync(mask(), value, delta, Size, where);
  }
  template <class T>
  T shfl_down(T value, unsigned delta,
              std::source_location const& where = std::source_location::current()) const {
    return __shfl_down_sync(mask(), value, delta, Size, where);
  }
  template <class T>
  T shfl_xor(T value, unsigned lane_mask,
             std::source_location const& where = std::source_location::current()) const {
    return __shfl_xor_sync(mask(), value, int(lane_mask), Size, where);
  }
  unsigned ballot(int predicate,
                  std::source_location const& where = std::source_location::current()) const {
    return __ballot_sync(mask(), predicate, where) >> base();
  }
  int any(int predicate,
          std::source_location const& where = std::source_location::current()) const {
    return __any_sync(mask(), predicate, where);
  }
  int all(int predicate,
          std::source_location const& where = std::source_location::current()) const {
    return __all_sync(mask(), predicate, where);
  }
  template <class T>
  unsigned match_any(T value,
                     std::source_location const& where = std::source_location::current()) const {
    return __match_any_sync(mask(), value, where) >> base();
  }

 private:
  template <unsigned TileSize, class Group>
  friend thread_block_tile<TileSize, Group> tiled_partition(Group const& group);
  struct cut {};
  explicit thread_block_tile(cut) {}

  [[nodiscard]] static unsigned base() { return gpufs::emulated::this_thread().lane / Size * Size; }
  [[nodiscard]] static unsigned mask() { return (0xffffffffu >> (32 - Size)) << base(); }
};

/// Cuts a block or a larger tile into tiles of `Size` threads. Returns the caller's tile.
template <unsigned Size, class Group>
[[nodiscard]] thread_block_tile<Size, Group> tiled_partition(Group const&) {
  return thread_block_tile<Size, Group>(typename thread_block_tile<Size, Group>::cut{});
}

}  // namespace cooperative_groups
