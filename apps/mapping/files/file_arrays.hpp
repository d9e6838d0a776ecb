// Where the objects of a file workload lie while it runs. One class for each variant.
#pragma once

#include <gpufs/mapping.hpp>

#include <apps/mapping/files/file_object.hpp>
#include <apps/mapping/files/kernel_timer.hpp>
#include <apps/mapping/files/work_files.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps::workloads {

/// Bytes of an object that a kernel uses.
struct kernel_use {
  unsigned object;
  access use;
  std::uint64_t first = 0;
  std::uint64_t bytes = ~0ull;  ///< to the object's end
};

/// An object as an array of items of four bytes, and what launches do with them.
struct windowed_use {
  unsigned object;
  access use;
};
inline constexpr std::uint64_t windowed_item_bytes = 4;

/// Equally long rows of an object.
struct byte_rows {
  std::uint64_t first = 0, row_bytes = 0;
  std::uint64_t pitch = 0;
  std::uint64_t rows = 1;
};

/// The same, where the CPU finds them.
struct cpu_rows {
  std::byte const* data;
  std::uint64_t pitch;

  template <class T>
  [[nodiscard]] T const* row(std::uint64_t r) const {
    return reinterpret_cast<T const*>(data + r * pitch);
  }
};

/// One thread calls its members. They throw std::system_error naming the file, device_error, or
/// shared_memory_error.
class file_arrays {
 public:
  virtual ~file_arrays() = default;

  /// Makes the objects, with the bytes of their files. These may still be on their way afterwards.
  virtual void map() = 0;
  /// Waits until the bytes of all files have arrived.
  virtual void wait_for_files() {}
  /// Puts the results into their files, without making them durable, and frees the objects.
  virtual void unmap() = 0;

  /// Where kernels find an object.
  [[nodiscard]] virtual void* address(unsigned object) const = 0;
  template <class T>
  [[nodiscard]] T* of(unsigned object) const {
    return static_cast<T*>(address(object));
  }

  /// The file of an object that the program reads itself; such an object has no address. Empty: it
  /// does not.
  [[nodiscard]] virtual std::string own_file(unsigned) const { return ""; }

  /// Bytes of an object for the CPU, as the kernels so far have left them. Valid until the next
  /// launch or call for that object.
  [[nodiscard]] virtual cpu_rows read(unsigned object, byte_rows const& what) = 0;

  /// The CPU writes `bytes` bytes to an object, from what may be another one's read().
  virtual void write(unsigned object, std::uint64_t first, void const* from,
                     std::uint64_t bytes) = 0;

  /// Writes what kernels have changed of an object to its file, and makes that durable.
  virtual void make_durable(unsigned object) = 0;

  /// Waits for the kernels so far.
  virtual void synchronize() { gpufs::synchronize(); }

  /// A call with these declarations for the next launch, or null: it declares nothing.
  [[nodiscard]] virtual std::unique_ptr<shared_call> declare(std::initializer_list<kernel_use>) {
    return nullptr;
  }

  /// Calls body(first, count, on) for one part of these objects' items after another, which may
  /// launch kernels that use items [first, first + count) on stream `on`. The objects have `items`
  /// items each. One part has all of them, but for mappings: these may be larger than all memory.
  using window_body = std::function<void(std::uint64_t, std::uint64_t, stream*)>;
  virtual void for_windows(std::initializer_list<windowed_use>, std::uint64_t items,
                           window_body const& body) {
    body(0, items, nullptr);
  }

  /// From now on launch_on() waits for each kernel, and `timer` says how long they ran.
  void time_kernels(kernel_timer& timer) { timer_ = &timer; }

  /// Makes a launch by `launch`.
  template <class Launch>
  void count_launch(Launch const& launch) {
    ++launches_;
    if (timer_ == nullptr)
      launch();
    else
      timer_->time(launch);
  }
  [[nodiscard]] std::uint64_t launches() const { return launches_; }

 private:
  kernel_timer* timer_ = nullptr;
  std::uint64_t launches_ = 0;
};

/// fread() into pageable memory and copies; fwrite() from there.
[[nodiscard]] std::unique_ptr<file_arrays> make_naive_arrays(work_files& files);

/// Threads that read pieces into pinned memory, from where they are copied meanwhile; the same way
/// back. Files are read in map().
[[nodiscard]] std::unique_ptr<file_arrays> make_hand_arrays(work_files& files);

/// is_declared: launches declare what they use. is_eager: files are read from map() on.
/// is_profiled: launches have names.
struct mapped_how {
  bool is_declared, is_eager, is_profiled;
};

/// Mappings of `memory`.
[[nodiscard]] std::unique_ptr<file_arrays> make_shared_arrays(work_files& files,
                                                              shared_memory& memory,
                                                              mapped_how how);

/// read() into CUDA's managed memory, which gets `device_bytes` of GPU memory; 0: what is free.
/// Throws usage_error on the emulated device.
[[nodiscard]] std::unique_ptr<file_arrays> make_managed_arrays(work_files& files,
                                                               std::uint64_t device_bytes);

#if defined(GPUFS_EMULATED) || defined(__CUDACC__)
/// Launches a kernel that uses these objects.
template <class... Parameters, class... Arguments>
void launch_on(file_arrays& a, std::initializer_list<kernel_use> uses,
               void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) {
  a.count_launch([&] {
    if (auto const call = a.declare(uses))
      gpufs::launch(*call, kernel, grid, block, std::forward<Arguments>(arguments)...);
    else
      gpufs::launch(kernel, grid, block, std::forward<Arguments>(arguments)...);
  });
}
#endif

}  // namespace gpufs::apps::workloads
