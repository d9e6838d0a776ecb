// The memory, the launches, the I/O and the clock of one run: the same program in all variants.
#pragma once

#include <gpufs/mapping.hpp>

#include <apps/common/seconds_since.hpp>
#include <apps/mapping/options.hpp>
#include <apps/mapping/phases.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gpufs::apps::workloads {

/// An array that CPU and kernels use. By hand: pinned memory and device memory.
template <class T>
class object {
 public:
  object() = default;
  /// The CPU's pointer. By hand: null if `is_gpu_only`.
  [[nodiscard]] T* host() const { return on_host_; }
  /// The kernels' pointer. Shared: the same.
  [[nodiscard]] T* device() const { return on_device_; }
  [[nodiscard]] std::uint64_t size() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const { return count_ * sizeof(T); }
  /// The result as it lies on the CPU's side.
  [[nodiscard]] std::span<std::byte const> result() const {
    return std::as_bytes(std::span<T const>(host(), count_));
  }

 private:
  friend class session;
  pinned_buffer<T> pinned_;
  buffer<T> device_;
  mapping shared_;
  T* on_host_ = nullptr;
  T* on_device_ = nullptr;
  std::uint64_t count_ = 0;
  std::uint64_t block_ = 0;
};

/// What a launch uses, for declarations.
struct used {
  mapping const* what;
  access use;
};

struct allocation {
  /// Bytes of a block where --block does not say: block_automatic, or what suits the object.
  std::uint64_t block = block_automatic;
  /// The CPU never uses it. By hand it has no pinned memory.
  bool is_gpu_only = false;
};

class session {
 public:
  /// Throws as shared_memory.
  session(setup const& of, way const& how);
  ~session();
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  /// An object of `count` zeros.
  template <class T>
  [[nodiscard]] object<T> allocate(std::uint64_t count, allocation const& how = {}) {
    object<T> o;
    o.count_ = count;
    if (memory_) {
      o.block_ = block_for(o.bytes(), how);
      map_options options;
      options.block = o.block_;
      o.shared_ = memory_->allocate(o.bytes(), options);
      o.on_host_ = o.on_device_ = o.shared_.template as<T>();
      return o;
    }
    o.device_ = buffer<T>(count);
    o.device_.fill_zero();
    o.on_device_ = o.device_.data();
    if (how.is_gpu_only) return o;
    o.pinned_ = pinned_buffer<T>(count);
    o.pinned_.fill_zero();
    o.on_host_ = o.pinned_.data();
    return o;
  }

  /// Copies elements [first, first + count) between the CPU's and the device's side. Shared:
  /// nothing. Call fetch() only behind synchronize().
  template <class T>
  void send(object<T>& o, std::uint64_t first, std::uint64_t count) {
    if (memory_ || count == 0) return;
    auto const in = time(phase::transfers);
    o.device_.copy_from_host(o.host() + first, count, first);
  }
  template <class T>
  void send(object<T>& o) {
    send(o, 0, o.size());
  }
  template <class T>
  void fetch(object<T> const& o, std::uint64_t first, std::uint64_t count) {
    if (memory_ || count == 0) return;
    auto const in = time(phase::transfers);
    o.device_.copy_to_host(o.host() + first, count, first);
  }
  template <class T>
  void fetch(object<T> const& o) {
    fetch(o, 0, o.size());
  }

  template <class T>
  [[nodiscard]] static used reads(object<T> const& o) {
    return {&o.shared_, access::read};
  }
  template <class T>
  [[nodiscard]] static used writes(object<T> const& o) {
    return {&o.shared_, access::write};
  }
  template <class T>
  [[nodiscard]] static used reads_writes(object<T> const& o) {
    return {&o.shared_, access::read_write};
  }

#if defined(GPUFS_EMULATED) || defined(__CUDACC__)
  /// Launches a kernel that uses these objects. They matter with --declare only.
  template <class... Parameters, class... Arguments>
  void launch(std::initializer_list<used> uses, void (*kernel)(Parameters...), dim3 grid,
              dim3 block, Arguments&&... arguments) {
    auto const in = time(phase::launch);
    auto& span = begin_kernel();
    auto const start = std::chrono::steady_clock::now();
    if (memory_ && is_declared_) {
      shared_call call;
      for (auto const& u : uses) declare(call, u);
      gpufs::launch(call, kernel, grid, block, std::forward<Arguments>(arguments)...);
    } else {
      gpufs::launch(kernel, grid, block, std::forward<Arguments>(arguments)...);
    }
    span.release = memory_ ? seconds_since(start) : 0;
    span.end.record(this_thread_stream());
  }
#endif

  /// Waits for the launches so far.
  void synchronize();

  /// Reads elements from a file into the device's side, or the side that has the newest bytes.
  /// Throws std::system_error; also if the file ends before.
  template <class T>
  void read(int fd, std::uint64_t offset, object<T>& to, std::uint64_t first, std::uint64_t count) {
    read_bytes(fd, offset, to.host() + first, count * sizeof(T));
    send(to, first, count);
  }

  /// Writes elements that a kernel has written last to a file, behind the launches so far.
  template <class T>
  void write(int fd, std::uint64_t offset, object<T> const& from, std::uint64_t first,
             std::uint64_t count) {
    fetch(from, first, count);
    write_bytes(fd, offset, from.host() + first, count * sizeof(T));
  }

  /// Counts the time until the returned value ends under `p` instead of the phase around it.
  [[nodiscard]] phase_clock::scope time(phase p) { return clock_.enter(p); }
  [[nodiscard]] phase_clock& clock() { return clock_; }

  [[nodiscard]] way const& how() const { return how_; }
  [[nodiscard]] bool is_shared() const { return memory_ != nullptr; }
  [[nodiscard]] bool is_declared() const { return is_declared_; }
  [[nodiscard]] shared_memory& memory() const { return *memory_; }
  /// Counters of the run so far; zeros unless shared.
  [[nodiscard]] mapping_statistics statistics() const;
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  /// Counts launches that were not made by launch().
  void add_launches(std::uint64_t count) { launches_ += count; }

  /// Of a shared object: bytes of a block (all of a lazy or batch one), and how many there are.
  template <class T>
  [[nodiscard]] std::uint64_t block_of(object<T> const& o) const {
    return how_.protocol == coherence_protocol::rolling ? o.block_ : o.bytes();
  }
  template <class T>
  [[nodiscard]] std::uint64_t blocks_of(object<T> const& o) const {
    return (o.bytes() + block_of(o) - 1) / block_of(o);
  }

 private:
  /// A plain launch releases objects behind `begin`, and takes `release` seconds for that.
  struct kernel_span {
    event begin, end;
    double release = 0;
  };

  [[nodiscard]] std::uint64_t block_for(std::uint64_t bytes, allocation const& how) const;
  kernel_span& begin_kernel();
  double take_kernel_times();
  static void declare(shared_call& call, used const& u);
  void read_bytes(int fd, std::uint64_t offset, void* to, std::uint64_t bytes);
  void write_bytes(int fd, std::uint64_t offset, void const* from, std::uint64_t bytes);

  way how_;
  bool is_declared_;
  std::unique_ptr<shared_memory> memory_;
  std::vector<std::unique_ptr<kernel_span>> spans_;
  std::size_t open_spans_ = 0;
  std::uint64_t launches_ = 0;
  phase_clock clock_;
};

}  // namespace gpufs::apps::workloads
