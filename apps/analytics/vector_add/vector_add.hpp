// vectorAdd of the BaM paper (section 5.4): c = a + b, all three in files.
#pragma once

#include <gpufs/config.hpp>

#include <apps/analytics/outcome.hpp>
#include <apps/analytics/output_file.hpp>
#include <apps/analytics/run_options.hpp>
#include <apps/harness/data_set.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps::analytics {

/// What all variants work on.
struct vector_add_setup {
  data_file const* a;
  data_file const* b;
  output_file const* c;
  std::uint64_t elements;
  launch_shape shape;
  std::uint64_t stride;  ///< of pages, see strided.hpp
  config settings;
  drive_set drives = {};  ///< of the inputs
};

/// One variant, with the memory that it needs.
class vector_add {
 public:
  virtual ~vector_add() = default;

  /// Writes the sums to c, which is empty, and makes them durable. `memory` writes them after the
  /// time. Throws std::system_error or std::runtime_error naming the file, or device_error.
  [[nodiscard]] virtual run_outcome run() = 0;
};

/// Throws device_error, usage_error for managed on the emulated device. `s` outlives the result.
[[nodiscard]] std::unique_ptr<vector_add> make_vector_add(variant how, vector_add_setup const& s);

/// The same for array, pointer and gread; for tiles; for the rest.
[[nodiscard]] std::unique_ptr<vector_add> make_file_add(variant how, vector_add_setup const& s);
[[nodiscard]] std::unique_ptr<vector_add> make_tiled_add(vector_add_setup const& s);
[[nodiscard]] std::unique_ptr<vector_add> make_direct_add(variant how, vector_add_setup const& s);

/// Input files a.u64 and b.u64. Element i depends on the seed and on i alone.
[[nodiscard]] std::vector<input_file> vector_add_inputs(std::uint64_t elements, std::uint64_t seed);

/// Compares all of the file with what its elements should be. Returns what is wrong, or an empty
/// text. Throws std::system_error.
[[nodiscard]] std::string check_sums(std::string const& path, std::uint64_t elements,
                                     std::uint64_t seed);

}  // namespace gpufs::apps::analytics
