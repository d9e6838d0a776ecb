// Where the linker leads a program's own copies and fills by CUDA, if it asks for that by
// gpufs_wrap_launches() of CMake. CUDA takes an object's address for the GPU's side.
#include <gpufs/owner/cuda/wrapped_calls.hpp>
#include <gpufs/owner/shared_launches.hpp>
#include <gpufs/owner/wrapped_bytes.hpp>

#include <cstddef>
#include <exception>

namespace gpufs::owner {

namespace {

constexpr named_bytes none{nullptr, 0};

/// Rows of `width` bytes, from the first byte to the last one.
named_bytes rows(void const* first, std::size_t pitch, std::size_t width, std::size_t height) {
  return {first, width == 0 || height == 0 ? 0 : pitch * (height - 1) + width};
}

template <class Copy>
cudaError_t copy_with_objects(cudaStream_t on, named_bytes to, named_bytes from, Copy const& copy) {
  if (shared::is_declared()) return copy(false);
  if (!concerns_us(to.first, to.bytes) && !concerns_us(from.first, from.bytes)) return copy(false);
  try {
    stream where = stream::of(on);
    shared_copy const handed(where, to, from);
    return copy(true);
  } catch (std::exception const& why) {
    say_refused("a copy", why);
    return cudaErrorUnknown;
  }
}

// A program that was written for two memories may say the wrong direction.
cudaMemcpyKind direction(bool is_shared, cudaMemcpyKind asked) {
  return is_shared ? cudaMemcpyDefault : asked;
}

}  // namespace

// The true functions have the names __real_* for the linker. Calls of the second suffix are those
// of programs whose default stream is each thread's own.
extern "C" {

#define GPUFS_WRAP_COPIES(suffix, default_stream)                                                  \
  cudaError_t __real_cudaMemcpy##suffix(void*, void const*, std::size_t, cudaMemcpyKind);          \
  cudaError_t __wrap_cudaMemcpy##suffix(void* to, void const* from, std::size_t bytes,             \
                                        cudaMemcpyKind kind) {                                     \
    return copy_with_objects(default_stream, {to, bytes}, {from, bytes}, [&](bool is_shared) {     \
      if (is_shared && to == from) return cudaStreamSynchronize(default_stream);                   \
      return __real_cudaMemcpy##suffix(to, from, bytes, direction(is_shared, kind));               \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemcpy2D##suffix(void*, std::size_t, void const*, std::size_t,            \
                                          std::size_t, std::size_t, cudaMemcpyKind);               \
  cudaError_t __wrap_cudaMemcpy2D##suffix(void* to, std::size_t to_pitch, void const* from,        \
                                          std::size_t from_pitch, std::size_t width,               \
                                          std::size_t height, cudaMemcpyKind kind) {               \
    return copy_with_objects(default_stream, rows(to, to_pitch, width, height),                    \
                             rows(from, from_pitch, width, height), [&](bool is_shared) {          \
                               if (is_shared && to == from)                                        \
                                 return cudaStreamSynchronize(default_stream);                     \
                               return __real_cudaMemcpy2D##suffix(to, to_pitch, from, from_pitch,  \
                                                                  width, height,                   \
                                                                  direction(is_shared, kind));     \
                             });                                                                   \
  }                                                                                                \
  cudaError_t __real_cudaMemcpyToSymbol##suffix(void const*, void const*, std::size_t,             \
                                                std::size_t, cudaMemcpyKind);                      \
  cudaError_t __wrap_cudaMemcpyToSymbol##suffix(void const* symbol, void const* from,              \
                                                std::size_t bytes, std::size_t offset,             \
                                                cudaMemcpyKind kind) {                             \
    return copy_with_objects(default_stream, none, {from, bytes}, [&](bool is_shared) {            \
      return __real_cudaMemcpyToSymbol##suffix(symbol, from, bytes, offset,                        \
                                               direction(is_shared, kind));                        \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemcpyFromSymbol##suffix(void*, void const*, std::size_t, std::size_t,    \
                                                  cudaMemcpyKind);                                 \
  cudaError_t __wrap_cudaMemcpyFromSymbol##suffix(void* to, void const* symbol, std::size_t bytes, \
                                                  std::size_t offset, cudaMemcpyKind kind) {       \
    return copy_with_objects(default_stream, {to, bytes}, none, [&](bool is_shared) {              \
      return __real_cudaMemcpyFromSymbol##suffix(to, symbol, bytes, offset,                        \
                                                 direction(is_shared, kind));                      \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemset##suffix(void*, int, std::size_t);                                  \
  cudaError_t __wrap_cudaMemset##suffix(void* to, int value, std::size_t bytes) {                  \
    return copy_with_objects(default_stream, {to, bytes}, none,                                    \
                             [&](bool) { return __real_cudaMemset##suffix(to, value, bytes); });   \
  }                                                                                                \
  cudaError_t __real_cudaMemset2D##suffix(void*, std::size_t, int, std::size_t, std::size_t);      \
  cudaError_t __wrap_cudaMemset2D##suffix(void* to, std::size_t pitch, int value,                  \
                                          std::size_t width, std::size_t height) {                 \
    return copy_with_objects(default_stream, rows(to, pitch, width, height), none, [&](bool) {     \
      return __real_cudaMemset2D##suffix(to, pitch, value, width, height);                         \
    });                                                                                            \
  }

GPUFS_WRAP_COPIES(, cudaStreamLegacy)
GPUFS_WRAP_COPIES(_ptds, cudaStreamPerThread)

#define GPUFS_SAME_STREAM(on) on
#define GPUFS_WRAP_ASYNC(suffix, stream_of)                                                        \
  cudaError_t __real_cudaMemcpyAsync##suffix(void*, void const*, std::size_t, cudaMemcpyKind,      \
                                             cudaStream_t);                                        \
  cudaError_t __wrap_cudaMemcpyAsync##suffix(void* to, void const* from, std::size_t bytes,        \
                                             cudaMemcpyKind kind, cudaStream_t on) {               \
    return copy_with_objects(stream_of(on), {to, bytes}, {from, bytes}, [&](bool is_shared) {      \
      if (is_shared && to == from) return cudaSuccess;                                             \
      return __real_cudaMemcpyAsync##suffix(to, from, bytes, direction(is_shared, kind), on);      \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemcpy2DAsync##suffix(void*, std::size_t, void const*, std::size_t,       \
                                               std::size_t, std::size_t, cudaMemcpyKind,           \
                                               cudaStream_t);                                      \
  cudaError_t __wrap_cudaMemcpy2DAsync##suffix(                                                    \
      void* to, std::size_t to_pitch, void const* from, std::size_t from_pitch, std::size_t width, \
      std::size_t height, cudaMemcpyKind kind, cudaStream_t on) {                                  \
    return copy_with_objects(stream_of(on), rows(to, to_pitch, width, height),                     \
                             rows(from, from_pitch, width, height), [&](bool is_shared) {          \
                               if (is_shared && to == from) return cudaSuccess;                    \
                               return __real_cudaMemcpy2DAsync##suffix(                            \
                                   to, to_pitch, from, from_pitch, width, height,                  \
                                   direction(is_shared, kind), on);                                \
                             });                                                                   \
  }                                                                                                \
  cudaError_t __real_cudaMemcpyToSymbolAsync##suffix(void const*, void const*, std::size_t,        \
                                                     std::size_t, cudaMemcpyKind, cudaStream_t);   \
  cudaError_t __wrap_cudaMemcpyToSymbolAsync##suffix(void const* symbol, void const* from,         \
                                                     std::size_t bytes, std::size_t offset,        \
                                                     cudaMemcpyKind kind, cudaStream_t on) {       \
    return copy_with_objects(stream_of(on), none, {from, bytes}, [&](bool is_shared) {             \
      return __real_cudaMemcpyToSymbolAsync##suffix(symbol, from, bytes, offset,                   \
                                                    direction(is_shared, kind), on);               \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemcpyFromSymbolAsync##suffix(void*, void const*, std::size_t,            \
                                                       std::size_t, cudaMemcpyKind, cudaStream_t); \
  cudaError_t __wrap_cudaMemcpyFromSymbolAsync##suffix(void* to, void const* symbol,               \
                                                       std::size_t bytes, std::size_t offset,      \
                                                       cudaMemcpyKind kind, cudaStream_t on) {     \
    return copy_with_objects(stream_of(on), {to, bytes}, none, [&](bool is_shared) {               \
      return __real_cudaMemcpyFromSymbolAsync##suffix(to, symbol, bytes, offset,                   \
                                                      direction(is_shared, kind), on);             \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemsetAsync##suffix(void*, int, std::size_t, cudaStream_t);               \
  cudaError_t __wrap_cudaMemsetAsync##suffix(void* to, int value, std::size_t bytes,               \
                                             cudaStream_t on) {                                    \
    return copy_with_objects(stream_of(on), {to, bytes}, none, [&](bool) {                         \
      return __real_cudaMemsetAsync##suffix(to, value, bytes, on);                                 \
    });                                                                                            \
  }                                                                                                \
  cudaError_t __real_cudaMemset2DAsync##suffix(void*, std::size_t, int, std::size_t, std::size_t,  \
                                               cudaStream_t);                                      \
  cudaError_t __wrap_cudaMemset2DAsync##suffix(void* to, std::size_t pitch, int value,             \
                                               std::size_t width, std::size_t height,              \
                                               cudaStream_t on) {                                  \
    return copy_with_objects(stream_of(on), rows(to, pitch, width, height), none, [&](bool) {      \
      return __real_cudaMemset2DAsync##suffix(to, pitch, value, width, height, on);                \
    });                                                                                            \
  }

GPUFS_WRAP_ASYNC(, GPUFS_SAME_STREAM)
GPUFS_WRAP_ASYNC(_ptsz, of_thread)

#undef GPUFS_WRAP_COPIES
#undef GPUFS_WRAP_ASYNC
#undef GPUFS_SAME_STREAM

}  // extern "C"

}  // namespace gpufs::owner
