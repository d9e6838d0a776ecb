// Makes a workload of the program out of a file_workload: files, variants, phases, checks.
#pragma once

#include <apps/mapping/files/file_arrays.hpp>
#include <apps/mapping/files/file_workload.hpp>
#include <apps/mapping/files/work_files.hpp>
#include <apps/mapping/workload.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace gpufs::apps::workloads {

/// A run maps the files, computes and unmaps. phase::io_read is the time until all bytes have
/// arrived, phase::kernels that of kernels and of what the CPU does between them, phase::io_write
/// that of unmap. With setup::times_kernels, phase::kernels is the device's time, and phase::launch
/// what else passes between io_read and io_write.
class file_program final : public workload {
 public:
  /// Makes the files.
  file_program(setup const& of, std::unique_ptr<file_workload> inner);
  ~file_program() override;

  void allocate(session& s) override;
  void run(session& s) override;
  void reference() override;
  void check(session& s, checks& c) override;
  [[nodiscard]] std::vector<std::span<std::byte const>> results() override;
  void check_counters(session const& s, mapping_statistics const& got, checks& c) override;

 private:
  class mapped_result;

  [[nodiscard]] std::unique_ptr<file_arrays> make_arrays(session& s);

  setup of_;
  std::unique_ptr<file_workload> inner_;
  work_files files_;
  std::unique_ptr<file_arrays> arrays_;
  std::vector<std::unique_ptr<mapped_result>> mapped_;
};

/// For description::make.
template <class FileWorkload>
[[nodiscard]] std::unique_ptr<workload> make_file_program(setup const& of) {
  return std::make_unique<file_program>(of, std::make_unique<FileWorkload>(of));
}

}  // namespace gpufs::apps::workloads
