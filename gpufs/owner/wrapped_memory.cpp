// Where the linker leads a program's own memcpy(), memmove() and memset(), if it asks for that by
// gpufs_wrap_io() of CMake. As wrapped_io.cpp.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/owner/shared_io.hpp>
#include <gpufs/owner/wrapped_bytes.hpp>

#include <cerrno>
#include <cstddef>

namespace gpufs::owner {

// The true functions have these names for the linker.
extern "C" {
void* __real_memcpy(void*, void const*, std::size_t);
void* __real_memmove(void*, void const*, std::size_t);
void* __real_memset(void*, int, std::size_t);
// What compilers make of them with _FORTIFY_SOURCE. The last number is the memory's size.
void* __real___memcpy_chk(void*, void const*, std::size_t, std::size_t);
void* __real___memmove_chk(void*, void const*, std::size_t, std::size_t);
void* __real___memset_chk(void*, int, std::size_t, std::size_t);
}

namespace {

// Copies of less go through the object's addresses, where faults are served: that is right as well,
// and faster where the CPU has the bytes.
constexpr std::size_t least_copied = 64 << 10;

/// Keeps errno, which the functions of memory do not change.
class same_errno {
 public:
  ~same_errno() { errno = before_; }

 private:
  int before_ = errno;
};

bool copies(void* to, void const* from, std::size_t bytes) {
  if (bytes < least_copied) return false;
  if (!concerns_us(to, bytes) && !concerns_us(from, bytes)) return false;
  same_errno const keeps;
  auto const target = find_own(to, bytes), source = find_own(from, bytes);
  auto const& space = target.space != nullptr ? target.space : source.space;
  return space != nullptr && owner::copy(*space, to, from, bytes, __real_memmove) == 0;
}

bool sets(void* to, int value, std::size_t bytes) {
  if (bytes < least_copied || !concerns_us(to, bytes)) return false;
  same_errno const keeps;
  auto const target = find_own(to, bytes);
  return target.space != nullptr && owner::set(*target.space, to, value, bytes) == 0;
}

}  // namespace

// What cannot be done goes to the true function. It touches the bytes, which says what is wrong. Of
// a copy that has begun, that holds for each piece: what it has moved may lie over its source.
extern "C" {

void* __wrap_memcpy(void* to, void const* from, std::size_t bytes) {
  return copies(to, from, bytes) ? to : __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, void const* from, std::size_t bytes) {
  return copies(to, from, bytes) ? to : __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, std::size_t bytes) {
  return sets(to, value, bytes) ? to : __real_memset(to, value, bytes);
}

// These end the program if the memory is too small.
void* __wrap___memcpy_chk(void* to, void const* from, std::size_t bytes, std::size_t room) {
  return bytes > room ? __real___memcpy_chk(to, from, bytes, room) : __wrap_memcpy(to, from, bytes);
}
void* __wrap___memmove_chk(void* to, void const* from, std::size_t bytes, std::size_t room) {
  return bytes > room ? __real___memmove_chk(to, from, bytes, room)
                      : __wrap_memmove(to, from, bytes);
}
void* __wrap___memset_chk(void* to, int value, std::size_t bytes, std::size_t room) {
  return bytes > room ? __real___memset_chk(to, value, bytes, room)
                      : __wrap_memset(to, value, bytes);
}

}  // extern "C"

}  // namespace gpufs::owner
