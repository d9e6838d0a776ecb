// Memory of a GPU at shared addresses, and what kernels may do with it there.
#include <gpufs/device/cuda/reservation.hpp>

#include <new>

namespace gpufs::device_memory {

void shared_range::implementation::refuse_guard(char const* call, CUresult result) {
  char const* name = nullptr;
  cuda.error_name(result, &name);
  std::lock_guard const lock(mutex);
  if (why_not_guarded.empty())
    why_not_guarded = std::string(call) + ": " + (name != nullptr ? name : "an unknown error");
}

std::byte* shared_range::implementation::reserve_for_library(std::uint64_t bytes) {
  auto const result = cuda.reserve(&library, bytes, granularity, 0, 0);
  if (result == CUDA_SUCCESS) return reinterpret_cast<std::byte*>(library);
  library = 0;
  refuse_guard("cuMemAddressReserve", result);
  return reinterpret_cast<std::byte*>(reserved);
}

CUresult shared_range::implementation::set_access(CUdeviceptr to, std::uint64_t room,
                                                  CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  access.flags = flags;
  return cuda.set_access(to, room, &access, 1);
}

// The library's addresses first: where they are, the shared ones may be closed to stores.
void shared_range::implementation::add(std::uint64_t at, std::uint64_t room) {
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  device_piece made{0, room};
  cuda.expect(cuda.create(&made.handle, room, &where, 0), "cuMemCreate");
  CUdeviceptr mapped[2]{};
  unsigned count = 0;
  char const* call = "cuMemMap";
  auto result = CUDA_SUCCESS;
  for (auto const base : {library, reserved}) {
    if (base == 0 || result != CUDA_SUCCESS) continue;
    call = "cuMemMap";
    result = cuda.map(base + at, room, 0, made.handle, 0);
    if (result != CUDA_SUCCESS) continue;
    mapped[count++] = base + at;
    call = "cuMemSetAccess";
    result = set_access(base + at, room, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  if (result == CUDA_SUCCESS) {
    std::lock_guard const lock(mutex);
    pieces.emplace(at, made);
    return;
  }
  for (unsigned i = 0; i < count; ++i) cuda.unmap(mapped[i], room);
  cuda.release(made.handle);
  cuda.expect(result, call);
}

void shared_range::implementation::remove(std::uint64_t at,
                                          device_piece const& what) const noexcept {
  cuda.unmap(reserved + at, what.bytes);
  if (library != 0) cuda.unmap(library + at, what.bytes);
  cuda.release(what.handle);
}

bool shared_range::set_device_access(std::uint64_t at, device_access to) noexcept try {
  auto& own = *implementation_;
  if (own.library == 0) return to == device_access::read_write;
  auto const bytes = [&] {
    std::lock_guard const lock(own.mutex);
    auto const piece = own.pieces.find(at);
    return piece == own.pieces.end() ? 0 : piece->second.bytes;
  }();
  if (bytes == 0) return true;
  auto const result =
      own.set_access(own.reserved + at, bytes,
                     to == device_access::read ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                               : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (result != CUDA_SUCCESS && to == device_access::read)
    own.refuse_guard("cuMemSetAccess", result);
  return result == CUDA_SUCCESS;
} catch (std::bad_alloc const&) {
  return false;
}

std::string shared_range::why_not_guarded() const {
  if (implementation_ == nullptr) return {};
  std::lock_guard const lock(implementation_->mutex);
  return implementation_->why_not_guarded;
}

}  // namespace gpufs::device_memory
