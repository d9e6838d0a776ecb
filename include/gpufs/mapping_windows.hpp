// Objects of any size, a part of each at a time: files larger than all memory.
#pragma once

#include <gpufs/mapping.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace gpufs {

/// An object that for_each_window() goes through, as an array of items.
struct windowed_object {
  mapping const* object;     ///< it stays until the loop has ended
  gpufs::access use;         ///< what the launches do with it
  std::uint64_t item_bytes;  ///< the object's size is a multiple of it
};

/// How for_each_window() divides the objects.
struct window_options {
  /// Most items of a window; 0 = so many that three windows fit into device_memory, or into
  /// device_memory and host_memory if the first is too small.
  std::uint64_t items = 0;
};

/// Items [first, first + count) of all objects of a loop.
class memory_window {
 public:
  /// For for_each_window().
  memory_window(std::vector<windowed_object> const& objects, std::uint64_t first,
                std::uint64_t count, stream& on)
      : first(first), count(count), objects_(objects), on_(on) {}

  std::uint64_t first;  ///< the first item's number
  std::uint64_t count;  ///< how many items

  /// The first item of the window, of object number `n` of the loop. For kernels.
  template <class T>
  [[nodiscard]] T* as(std::size_t n) const {
    auto const& o = objects_[n];
    return reinterpret_cast<T*>(o.object->as<char>() + first * o.item_bytes);
  }
  /// Where launches go.
  [[nodiscard]] stream& on() const { return on_; }

 private:
  std::vector<windowed_object> const& objects_;
  stream& on_;
};

/// Calls body() for window after window of all objects in step, in this thread. body() launches
/// kernels on window.on(), which use the window's items, and no other objects unless a shared_call
/// declares them. body() gets no signals. `on`: null: this_thread_stream().
///
/// Neither body() nor another CPU thread does anything else with the objects of the loop.
///
/// While kernels use a window, the next one is read from the files, and what the one before has
/// changed is written to them.
///
/// On return all launches have ended and all is written back, as by mapping::write_back().
///
/// Returns 0, or the first error of a write-back, after which there is no further window.
///
/// Throws what body() throws, device_error, and shared_memory_error:
///   EINVAL no object, an empty mapping, one of another shared_memory, or other numbers of items
///   ENOMEM a window does not fit | an errno of shared_call::release()
int for_each_window(shared_memory& memory, std::vector<windowed_object> const& objects,
                    std::function<void(memory_window const&)> const& body,
                    window_options const& options = {}, stream* on = nullptr);

}  // namespace gpufs
