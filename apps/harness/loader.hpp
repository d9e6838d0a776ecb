// Ways to bring files into arrays on the device, behind one interface. Measurements of them differ
// in nothing else.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/device.hpp>
#include <gpufs/statistics.hpp>

#include <apps/baseline/original.hpp>
#include <apps/harness/data_set.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

/// One file to be read into one array, which is at least as long.
struct load_item {
  data_file const* from;
  buffer<std::byte>* to;
};

/// How the blocks of an I/O kernel read.
struct io_shape {
  unsigned blocks = 128;
  unsigned threads = 512;
  std::uint64_t request = 64 << 10;  ///< bytes per gread
};

class loader {
 public:
  virtual ~loader() = default;

  /// Takes what load() with these items will need. Not timed.
  virtual void prepare(std::vector<load_item> const& items) { (void)items; }

  /// Brings all files over, in order, and waits for the end. Only this is timed: allocations come
  /// before. Throws std::runtime_error naming file and offset if a read failed.
  virtual void load(std::vector<load_item> const& items) = 0;

  /// What the last load() did, where there is a filesystem that counts.
  [[nodiscard]] virtual std::optional<statistics> counters() const { return std::nullopt; }
};

/// Hand-written: one thread reads a whole file into touched host memory, then one copy brings it
/// over. One file after the other. `pinned`: that memory is pinned. `most_bytes`: size of the
/// largest file.
[[nodiscard]] std::unique_ptr<loader> make_cpuio_loader(std::uint64_t most_bytes, bool pinned);

/// Hand-written: 8 threads, each with two pinned chunks of 4 MiB. A thread reads into one chunk
/// while the other is copied.
[[nodiscard]] std::unique_ptr<loader> make_pipelined_loader();

/// A kernel in which each block opens the files and greads its strip of each. Owns a filesystem
/// with these settings.
[[nodiscard]] std::unique_ptr<loader> make_gread_loader(config const& settings, io_shape shape);

/// The same through our model of GPUfs (apps/baseline), with a cache of `cache_bytes` for each
/// file, empty at first.
[[nodiscard]] std::unique_ptr<loader> make_original_loader(original::options const& settings,
                                                           io_shape shape);

}  // namespace gpufs::apps
