// NVTX ranges in the domain "gpufs".
#include <host-daemon/base/profiler_range.hpp>

#if !defined(GPUFS_EMULATED)
#include <nvtx3/nvToolsExt.h>

namespace gpufs::daemon {

namespace {

// Null without a profiler.
nvtxDomainHandle_t domain() noexcept {
  static nvtxDomainHandle_t const made = ::nvtxDomainCreateA("gpufs");
  return made;
}

}  // namespace

bool is_profiled() noexcept { return domain() != nullptr; }

void begin_profiler_range(std::string const& text) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = text.c_str();
  ::nvtxDomainRangePushEx(domain(), &range);
}

void end_profiler_range() noexcept { ::nvtxDomainRangePop(domain()); }

}  // namespace gpufs::daemon
#endif
