// A gather or a scatter: the check of its arguments, its kernels, its end.
#pragma once

#include <nanobind/nanobind.h>
#include <python/src/core.hpp>
#include <python/src/frees.hpp>
#include <python/src/mapped.hpp>
#include <python/src/records.hpp>
#include <python/src/tensor.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gpufs::python {

/// What a gather or scatter was called with.
struct transfer_request {
  int fd = -1;
  bool writes = false;                    ///< scatter
  std::uint64_t size = 0;                 ///< of a record
  std::optional<std::uint64_t> stream{};  ///< a cudaStream_t; none: the legacy default stream
  bool unchecked = false;  ///< offsets as if the host could not reach them, for tests
  bool staged = false;     ///< through device memory even if the tensor is in reach, for tests
};

/// Records on their way between a file and a tensor. Any thread calls.
class transfer {
 public:
  /// Checks everything, and starts the kernel. Records of a tensor in memory that kernels do not
  /// reach are moved at once. `stream` owns the request's stream, and is kept. The caller holds the
  /// GIL.
  ///
  /// Throws nanobind::value_error (sizes, device), nanobind::type_error (offsets), IndexError (a
  /// record beyond the end of the file), OSError (not open), device_error, KeyboardInterrupt.
  [[nodiscard]] static std::shared_ptr<transfer> start(std::shared_ptr<core> const& of,
                                                       transfer_request const& request,
                                                       tensor offsets, tensor data,
                                                       nanobind::object stream);
  /// Waits for the kernel. The caller holds the GIL.
  ~transfer();
  transfer(transfer const&) = delete;
  transfer& operator=(transfer const&) = delete;

  /// Waits until all records have been moved, and handles signals meanwhile: after one whose
  /// handler raises, the kernel is told to stop. The caller holds the GIL.
  ///
  /// Throws what the handler raised; later calls throw OSError (ECANCELED). Throws OSError with the
  /// record's number for the first record that failed, IndexError if the file ends within it,
  /// device_error. Each call throws the same. Throws std::runtime_error in a handler that
  /// interrupts this very wait, std::system_error (EPERM) in a child of fork().
  void wait();

  /// True once wait() need not wait. The caller holds the GIL. Throws device_error, and
  /// std::system_error (EPERM) in a child of fork().
  [[nodiscard]] bool done();

  /// Throws std::runtime_error if this thread runs a signal handler that interrupts its wait for a
  /// transfer of `of`, if given of `fd`: waiting for the end of that would last for ever. The
  /// transfer is told to stop. The caller does not hold the GIL.
  static void refuse_in_handler(core const& of, std::optional<int> fd);

  [[nodiscard]] int fd() const { return request_.fd; }

  /// As wait(), without the GIL, without signals, and keeps failures for wait().
  void finish() noexcept;

  /// As wait(), and keeps failures for wait(). While another thread waits for it, what a handler
  /// raises is thrown at once, and the kernel goes on. Throws what a handler raised, system_error.
  void finish_or_raise();

  /// Tells the kernel to stop, unless another thread waits for it. The caller does not hold the
  /// GIL.
  void stop() noexcept;

 private:
  transfer(std::shared_ptr<core> of, transfer_request const& request, tensor offsets, tensor data,
           nanobind::object stream);
  void check();
  template <class Act>
  void use_mappings(Act const& act);
  void take_memory(bool staged);
  void launch_part(std::uint64_t first, std::uint64_t count, std::byte* data);
  void launch_declared(stream& on, record_job const& job);
  void move_staged();
  void await(bool handle_signals);
  [[nodiscard]] bool has_ended() const;
  bool run_handlers();
  void stop_kernel();
  [[nodiscard]] bool is_interrupted() const;
  void throw_if_stopped() const;
  void give_back() noexcept;
  void throw_failure(std::uint64_t failure) const;

  std::shared_ptr<core> core_;
  transfer_request request_;
  std::string name_;  // of the file; empty: not known
  std::uint64_t count_ = 0;
  unsigned word_ = 0;                                    ///< as word_of(); 0: not known
  std::optional<tensor> offsets_, data_;                 // destroyed with the GIL
  nanobind::object stream_;                              // the same
  std::shared_ptr<mapped> data_in_, offsets_in_;         // null: in no mapping
  bool data_reached_ = false, offsets_reached_ = false;  // by kernels; else they are copied
  std::uint64_t const* device_offsets_ = nullptr;

  std::timed_mutex mutex_;  // guards what follows; taken without the GIL
  std::optional<core::use> use_;
  std::unique_ptr<workspace> workspace_;
  std::optional<stream> on_;  // none: the workspace's
  std::optional<running_kernel> running_;
  bool ended_ = true;
  bool stopped_ = false;  // a signal handler did it
  std::uint64_t failure_ = ~std::uint64_t{0};
  std::string device_failure_;
};

}  // namespace gpufs::python
