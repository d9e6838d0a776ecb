// Copies between pinned memory and the emulated device's, in the order of a stream.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/stream_implementation.hpp>
#include <gpufs/device/memory.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreReadsBegin(char const* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(char const* file, int line);
#endif

namespace gpufs::device_memory {

namespace {

// A copy engine may read memory that the program writes meanwhile, if the copied bytes are not
// used.
void copy_by_engine(void* to, void const* from, std::uint64_t bytes) {
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  std::memcpy(to, from, bytes);
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}

}  // namespace

void copy_to_device(stream& on, std::span<pinned_copy const> pieces) {
  on.access().enqueue({[all = std::vector<pinned_copy>(pieces.begin(), pieces.end())] {
                         for (auto const& p : all) copy_by_engine(p.device, p.pinned, p.bytes);
                         return std::string();
                       },
                       true});
}

void copy_to_pinned(stream& on, void* pinned, void const* device, std::uint64_t bytes) {
  on.access().enqueue({[=] {
                         copy_by_engine(pinned, device, bytes);
                         return std::string();
                       },
                       true});
}

}  // namespace gpufs::device_memory
