// The records of open files, which device code reads. Each endpoint has a table of its own.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::daemon {

/// All tables say the same. One thread at a time stores to a record; the registry's locks see to
/// that. bump_epoch() and count_change() are thread-safe.
class record_tables {
 public:
  /// A field of a record.
  using field = std::uint64_t rpc::open_file_record::*;

  /// Serves region.open_files (region.max_open_files entries, 1..65536, zeroed) and region.control
  /// of one or more regions, which must outlive it.
  /// Throws std::invalid_argument if there is no region or one is wrong, or if they differ in
  /// max_open_files or in whether they have write buffers.
  record_tables(rpc::shared_region const& region)  // NOLINT: one region is a list of one
      : record_tables{std::vector{region}} {}
  explicit record_tables(std::vector<rpc::shared_region> regions);

  /// The entries of each table.
  [[nodiscard]] std::size_t size() const noexcept { return regions_.front().max_open_files; }
  /// Returns whether the regions have write buffers.
  [[nodiscard]] bool writable() const noexcept { return regions_.front().writes.count != 0; }

  /// Stores a field of record `index` in every table.
  // Pairs with the device's acquire of the same word. In each table the stores arrive in the order
  // of the calls.
  void store(std::uint32_t index, field f, std::uint64_t value) noexcept;

  /// Returns a field of record `index`. The load orders nothing.
  [[nodiscard]] std::uint64_t load(std::uint32_t index, field f) const noexcept;

  /// Raises every endpoint's epoch: records have changed.
  void bump_epoch() noexcept;

  /// Counts a new version of a file that was open already, for the answers of later opens. Call it
  /// when the records have the version.
  void count_change() noexcept;

 private:
  std::vector<rpc::shared_region> regions_;
};

}  // namespace gpufs::daemon
