// gpufs::array<T>: a file, or part of one, as an array in device code.
#pragma once

#include <gpufs/io.hpp>
#include <gpufs/io/element/file_view.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs {

/// When the host gets what kernels store to an array.
/// on_evict  Later: as gwrite's bytes, when their page rests or makes room, or a call asks for it.
/// through   The store that completes a page hands the page to write-back at once, and goes on.
enum class write_policy : std::uint32_t { on_evict, through };

template <class T>
class held_ptr;

template <class T>
class held_writer;

template <class T>
class array;

/// Proxy for a[i] of a writable array. Reading it loads the element; assigning to it stores.
/// `auto x = a[i]` copies the proxy: each use of x loads again.
template <class T>
class array_element {
 public:
  /// For array::operator[]: element i of `a`, which outlives the proxy.
  __device__ array_element(array<T> const& a, std::uint64_t i) : array_(a), i_(i) {}
  /// A proxy for the same element. Nothing is loaded.
  array_element(array_element const&) = default;
  /// Loads the element, as array::load().
  __device__ operator T() const { return array_.load(i_); }
  /// Stores the element, as array::store().
  __device__ array_element const& operator=(T const& value) const;
  /// Loads the other element and stores its value.
  __device__ array_element const& operator=(array_element const& other) const;

 private:
  array<T> const& array_;
  std::uint64_t i_;
};

/// A view of size() elements of an open file: array<T const> reads, array<T> also stores.
/// All threads of a group make it together. Then each thread accesses elements by itself, in
/// divergent code, too. Use it while its io_context lives.
///
/// T is trivially copyable. An element may straddle pages; each part is then accessed by itself.
/// Each thread has its own array. A copy keeps no page.
///
/// Lanes that access together look up, and bring in, each distinct page once (BaM paper, section
/// 4.1). Other lanes go separately. For runs of elements held_ptr is cheaper.
///
/// In files that nobody writes, loads of cached elements pin no page and are not counted as hits
/// (gpufs/cache/peek.hpp). Stores are gwrites of the element's bytes. Every block sees them at
/// once; the host file has them after gfsync or the last gclose.
///
/// Elements of up to 32 bytes in registered file windows are loaded there, without their page,
/// until the page has been wanted often (docs/design/random.md).
///
/// A page that a whole warp returns to is kept: pinned for its lanes until they access another page
/// or their arrays end. At most an eighth of all frames is kept, over all arrays and kernels.
/// release() gives the page back earlier.
///
/// The cached page of the last access stays the version that it was if the file is then opened for
/// writing, truncated or changed. Another page, and any page after release(), is read as it is now.
///
/// Errors do not stop the kernel. A failed load or fetch_add gives T{}. A failed store stores
/// nothing, or a part of an element that straddles pages. error() gives the thread's first error:
///   -ERANGE no such element | -EIO the file has become shorter
///   -ENOMEM all frames, channels or write buffers stayed in use for config::rpc_timeout_ms
///   an error of gread() or gwrite()
template <class T>
class array {
 public:
  using value_type = std::remove_const_t<T>;             ///< what load() returns
  static constexpr bool writable = !std::is_const_v<T>;  ///< true: array<T>, not array<T const>
  static_assert(std::is_trivially_copyable_v<value_type> &&
                std::is_default_constructible_v<value_type>);

  /// Count of all whole elements that the file has behind the offset.
  static constexpr std::uint64_t to_the_end = ~0ull;

  /// A view of `count` elements of `fd` from byte `offset` on. All threads of the group call.
  /// Elements of a writable array may lie beyond the end of the file. They read as zeros, and
  /// stores make the file longer.
  ///
  /// With write_policy::through the host writes a page without waiting for it to rest, as soon as
  /// all of the page's bytes that belong to the view are dirty. Stores do not wait for that. Their
  /// errors are those of gmsync() with MS_ASYNC: a later store, or gfsync, reports a failed write.
  ///
  /// error() then gives 0, or
  ///   -EBADF not open | -EACCES `fd` is O_WRONLY, or a writable array's is not O_RDWR
  ///   -EINVAL `offset` < 0 or no multiple of alignof(T), a group of less than 32 threads
  ///   -EINVAL elements beyond the end of a file, for array<T const>
  ///   -ETIMEDOUT, -EIO a new version of a written file could not be had, as gread()
  template <class Group>
  __device__ array(io_context<Group>& io, int fd, std::int64_t offset = 0,
                   std::uint64_t count = to_the_end, write_policy policy = write_policy::on_evict);
  /// A view of the same elements for this thread. It keeps no page.
  __device__ array(array const& other) { take_over(other); }
  /// Gives the kept page back, then as the copy.
  __device__ array& operator=(array const& other);
  /// Gives the kept page back.
  __device__ ~array() { release(); }

  /// Number of elements.
  [[nodiscard]] __device__ std::uint64_t size() const { return view_.size; }

  /// Element i: its value, or a proxy if the array is writable. Any thread calls.
  [[nodiscard]] __device__ auto operator[](std::uint64_t i) const;

  /// The value of element i, T{} after an error. Any thread calls.
  [[nodiscard]] __device__ __forceinline__ value_type load(std::uint64_t i) const;

  /// Stores element i. Any thread calls. Stores of consecutive elements by lanes that come together
  /// are one write.
  __device__ __forceinline__ void store(std::uint64_t i, value_type const& value) const;

  /// Adds `value` to element i, and returns the value before. T is an integer, float or double of 4
  /// or 8 bytes. Any thread calls. Integers wrap around.
  ///
  /// Atomic among all accesses by fetch_add and store, of all kernels of this filesystem, through
  /// whichever descriptor and array. So concurrent adds give the exact sum, and each gets a value
  /// of its own. It orders no other accesses. fetch_add(i, 0) is an atomic load.
  ///
  /// A store as any other: the element is dirty afterwards, and an element beyond the end of the
  /// file counts from 0. It is not atomic towards other processes, the host, or other filesystems.
  /// docs/consistency.md says more.
  ///
  /// After an error it returns T{} and has added nothing.
  __device__ __forceinline__ value_type fetch_add(std::uint64_t i, value_type value) const;

  /// Asks for the pages of elements [i, i + n) and returns at once. Any thread calls. The next
  /// access that misses one of them waits less, or not at all.
  ///
  /// A hint: no page comes into the cache before that access, no error is changed, and what cannot
  /// be asked for now is left out. So are elements beyond the view.
  ///
  /// Requests for as many pages as a quarter of config::staging_size has can wait for their
  /// accesses. Accesses by array and held_ptr find them, gread does not. A request is made again if
  /// kernels have written to the same MiB of the file since.
  ///
  /// The calling thread asks page by page. For many pages, let each lane ask for others.
  __device__ __forceinline__ void prefetch(std::uint64_t i, std::uint64_t n = 1) const;

  /// Gives back the page that is kept for this thread, if any. The next access finds its page
  /// anew. Any thread calls.
  __device__ __forceinline__ void release() const;

  /// A pointer to element i that holds its page while it moves within it. Any thread calls.
  [[nodiscard]] __device__ held_ptr<value_type const> pointer(std::uint64_t i) const;

  /// A pointer that stores to element i, and to those beside it, in a page that it holds. Any
  /// thread calls. The array can be stored to.
  [[nodiscard]] __device__ held_writer<value_type> writer(std::uint64_t i) const;

  /// Returns the first error of the constructor or of this thread's accesses; 0: none.
  [[nodiscard]] __device__ int error() const { return view_.error; }

 private:
  /// How many elements from elements_.first on were seen in a frame, and its generation then.
  struct seen_page {
    std::uint32_t count = 0;
    std::uint32_t generation = 0;
  };

  /// The outcome of a search for an element.
  struct found {
    value_type value;
    io::held_elements<T> elements;  ///< the array's from now on
    bool there;                     ///< false: there is no value yet
  };

  __device__ __forceinline__ value_type load_elsewhere(std::uint64_t i) const;
  GPUFS_STAGE static found load_again(array const* self, std::uint64_t i);
  GPUFS_STAGE static found load_far(array const* self, std::uint64_t i);
  template <class See>
  __device__ __forceinline__ found find(std::uint64_t i, See&& see) const;
  __device__ __forceinline__ value_type load_from_file(std::uint64_t i) const;
  __device__ void take_over(array const& other);

  mutable io::file_view view_;
  /// Elements of the page that was seen last. The count is 0 unless the page is kept.
  mutable io::held_elements<T> elements_;
  mutable seen_page seen_;
};

}  // namespace gpufs

#include <gpufs/held_ptr.hpp>
#include <gpufs/held_writer.hpp>
#include <gpufs/io/element/array.hpp>
