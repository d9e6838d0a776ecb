// What an application gives to the harness: its files, its kernels, its reference. One instance is
// one problem.
#pragma once

#include <apps/harness/arrays.hpp>
#include <apps/harness/chunk_io.hpp>
#include <apps/harness/input_file.hpp>
#include <apps/harness/problem.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// An application with a given input. Made cheaply: memory is taken in prepare().
class port {
 public:
  virtual ~port() = default;

  /// The input files, most_files at most.
  [[nodiscard]] virtual std::vector<input_file> files() const = 0;

  /// Which files are read, and in which order: a file may be read twice.
  [[nodiscard]] virtual std::vector<unsigned> reads() const {
    std::vector<unsigned> all(files().size());
    for (unsigned i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }

  [[nodiscard]] virtual std::vector<output_array> outputs() const = 0;

  /// Allocates scratch memory on the device and loads kernels. Not timed.
  virtual void prepare() {}

  /// Queues the computation on this_thread_stream(). Outputs are zero before it.
  virtual void compute(device_arrays const& arrays) = 0;

  /// Allocates what compute_fused() with so many blocks needs besides. Not timed.
  virtual void prepare_fused(unsigned blocks);

  /// Queues a computation that reads its files itself; `arrays` has no inputs. Only where the
  /// description says that there is one.
  virtual void compute_fused(chunk_io const& files, unsigned blocks, unsigned threads,
                             device_arrays const& arrays);

  /// The outputs as the host computes them, with all its threads.
  [[nodiscard]] virtual host_outputs reference(host_inputs const& in) const = 0;

  /// Says what is wrong with outputs of the device; empty if nothing is. Looks at every element:
  /// compares with reference(), unless the application has a cheaper proof.
  [[nodiscard]] virtual std::string check(host_inputs const& in, host_outputs const& got) const {
    return difference(got, reference(in), false);
  }

  /// Writes what can be looked at into `folder` (--output), and returns the paths. Only where the
  /// description says that there is something.
  virtual std::vector<std::string> write_pictures(host_outputs const& got,
                                                  std::string const& folder) const;
};

/// An option of one application: "--NAME VALUE".
struct extra_option {
  std::string name;
  std::string value;  ///< by default
  std::string help;
};

struct port_description {
  std::string_view name;        ///< of the program
  std::string_view summary;     ///< one line for --help
  unsigned blocks;              ///< of the paper's I/O kernel
  bool fused;                   ///< has compute_fused()
  std::string_view real_input;  ///< what --input takes, for --help; empty: there is no --input
  bool pictures;                ///< has write_pictures(), for --output
  bool has_formula = false;     ///< the input of --gen=paper does not depend on --seed
  std::vector<extra_option> extras;
  std::unique_ptr<port> (*make)(problem const&);
};

}  // namespace gpufs::apps
