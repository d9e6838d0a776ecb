// A workload of gpufs-mapping: one program in all variants, with its checks.
#pragma once

#include <gpufs/mapping_statistics.hpp>

#include <apps/mapping/checks.hpp>
#include <apps/mapping/options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpufs::apps::workloads {

class session;

/// One run of a workload. Made anew for each run. The calls come in the order of the members.
class workload {
 public:
  virtual ~workload() = default;

  /// Makes the objects, in all variants alike. Its time is reported by itself.
  virtual void allocate(session& s) = 0;

  /// The program: CPU phases, calls and I/O. What it does outside of `s` counts as CPU time.
  /// Copies of the variant `hand` are s.send() and s.fetch(), which do nothing in `shared`.
  virtual void run(session& s) = 0;

  /// The whole result by the CPU alone, into plain memory: the variant `cpu`.
  virtual void reference() = 0;

  /// Compares the results with reference(), or at large sizes with samples of it.
  virtual void check(session& s, checks& c) = 0;

  /// Bytes that must be the same in all variants with a device. By default there are none.
  [[nodiscard]] virtual std::vector<std::span<std::byte const>> results() { return {}; }

  /// Compares the counters of the variant `shared` with the closed forms of its protocol.
  virtual void check_counters(session const& s, mapping_statistics const& got, checks& c) = 0;
};

/// A dimension of a workload. --size sets the first one, --set any.
struct parameter {
  char const* name;
  std::uint64_t smoke, paper;
  char const* what;
  std::uint64_t low = 1, high = 1ull << 48;  ///< the least value, and the largest
  std::uint64_t multiple_of = 1;
};

struct description {
  char const* name;
  char const* what;  ///< one line
  std::vector<parameter> parameters;
  std::unique_ptr<workload> (*make)(setup const& of);
  bool has_files = false;  ///< its objects are files
};

/// `Workload` made of its setup, for description::make.
template <class Workload>
[[nodiscard]] std::unique_ptr<workload> make_workload(setup const& of) {
  return std::make_unique<Workload>(of);
}

/// All workloads, in the order of all.hpp.
[[nodiscard]] std::vector<description const*> const& all_workloads();

/// Throws usage_error, with the names that there are.
[[nodiscard]] description const& workload_named(std::string const& name);

}  // namespace gpufs::apps::workloads
