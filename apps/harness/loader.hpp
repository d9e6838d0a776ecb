// Ways to bring files into arrays on the device, all behind one interface: what is measured differs
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

  /// Brings everything over, in order; complete on return. This is what is timed: allocations have
  /// been made before. Throws std::runtime_error naming file and offset if something could not be
  /// read.
  virtual void load(std::vector<load_item> const& items) = 0;

  /// What the last load() did, where there is a filesystem that counts.
  [[nodiscard]] virtual std::optional<statistics> counters() const { return std::nullopt; }
};

/// By hand: one thread reads a whole file into touched host memory, then one copy brings it over;
/// file by file. `pinned`: that memory is pinned. `most_bytes`: of the largest file.
[[nodiscard]] std::unique_ptr<loader> make_cpuio_loader(std::uint64_t most_bytes, bool pinned);

/// By hand: 8 threads, each with two pinned chunks of 4 MiB: one is read into while the other is
/// copied.
[[nodiscard]] std::unique_ptr<loader> make_pipelined_loader();

/// A kernel in which each block opens the files and greads its strip of each. Owns a filesystem
/// with these settings.
[[nodiscard]] std::unique_ptr<loader> make_gread_loader(config const& settings, io_shape shape);

/// The same through GPUfs as it was (apps/baseline), with a cache of `cache_bytes` for each file,
/// empty at first.
[[nodiscard]] std::unique_ptr<loader> make_original_loader(original::options const& settings,
                                                           io_shape shape);

}  // namespace gpufs::apps
