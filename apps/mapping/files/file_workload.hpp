// A workload whose data lie in files (DRAGON's programs): its objects, its kernels, its results.
#pragma once

#include <gpufs/mapping_statistics.hpp>

#include <apps/mapping/checks.hpp>
#include <apps/mapping/files/file_object.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpufs::apps::workloads {

class file_arrays;
class work_files;

enum class element { f32, f64, i32 };

[[nodiscard]] constexpr std::uint64_t bytes_of(element e) { return e == element::f64 ? 8 : 4; }

/// How a file with results is compared with the reference.
struct result_rule {
  unsigned object;
  element type;
  /// |got - wanted| <= absolute + relative |wanted|. Both 0: the same values.
  double absolute = 0, relative = 0;
  /// sum |got - wanted| <= l1 sum |wanted|; it then takes the place of the bounds above.
  std::optional<double> l1 = std::nullopt;
  std::uint64_t group = 4096;           ///< elements that the reference computes at once
  std::uint64_t most_groups = 1 << 12;  ///< more are sampled
};

/// Bytes of the files of a program that reads each of them once, or writes it once.
struct streamed_bytes {
  std::uint64_t read = 0, written = 0;
};

/// All of what is read is filled, and nothing else. All of what is written goes home.
inline void check_streamed(mapping_statistics const& got, streamed_bytes const& of, checks& c) {
  c.equal("fill_bytes", got.fill_bytes, of.read);
  c.equal("fills_skipped", got.fills_skipped, of.written);
  c.equal("writeback_bytes", got.writeback_bytes, of.written);
  c.equal("pages_unchanged", got.pages_unchanged, 0);
  c.equal("bytes_d2h", got.bytes_d2h, of.written);
  c.equal("faults", got.faults_read + got.faults_write, 0);
}

class file_workload {
 public:
  virtual ~file_workload() = default;

  [[nodiscard]] virtual std::vector<file_object> const& objects() const = 0;

  /// Whether compute() goes through files that may be larger than all memory. Then nobody waits for
  /// them first.
  [[nodiscard]] virtual bool is_in_windows() const { return false; }

  /// The kernels, and what the CPU does between them.
  virtual void compute(file_arrays& a) = 0;

  /// Elements of a result from `first` on, by the CPU and from the generator's numbers alone. Whole
  /// groups, but for the object's end. Several threads call it, after prepare_reference().
  virtual void reference(unsigned object, std::uint64_t first, std::span<double> to) const = 0;

  /// What all elements of the reference need.
  virtual void prepare_reference() {}

  [[nodiscard]] virtual std::vector<result_rule> const& rules() const = 0;

  /// Compares the files with what else is known of them.
  virtual void check_more(work_files const&, checks&) const {}

  /// Compares the counters of the variant `shared` with the closed forms, after unmap.
  virtual void check_counters(mapping_statistics const& got, checks& c) const = 0;
};

}  // namespace gpufs::apps::workloads
