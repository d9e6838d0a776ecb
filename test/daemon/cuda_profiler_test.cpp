// Claims about the ranges that a profiler sees. The profiler is this program itself: NVTX calls a
// tool that is linked to it.
#include <test/daemon/daemons.hpp>

#include <doctest/doctest.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace {

using namespace gpufs::test;
using gpufs::io_backend;

// What the tool was told: texts of ranges, and how many of them are open.
struct seen_ranges {
  std::mutex mutex;
  std::vector<std::string> texts;
  int open = 0;
};

seen_ranges& seen() {
  static seen_ranges all;
  return all;
}

nvtxDomainHandle_t on_create(char const*) {
  static int domain;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

int on_push(nvtxDomainHandle_t, nvtxEventAttributes_t const* range) {
  std::lock_guard const lock{seen().mutex};
  seen().texts.emplace_back(range->message.ascii);
  return seen().open++;
}

int on_pop(nvtxDomainHandle_t) {
  std::lock_guard const lock{seen().mutex};
  return --seen().open;
}

int begin_tool(NvtxGetExportTableFunc_t tables) {
  auto const* const callbacks =
      static_cast<NvtxExportTableCallbacks const*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(on_create);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(on_push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(on_pop);
  return 1;
}

}  // namespace

TEST_CASE("profiler: reads are ranges with file, bytes and path, and every range ends") {
  InitializeInjectionNvtx2_fnptr = begin_tool;  // before the first call of NVTX
  scratch_folder folder;
  auto const file = folder / "a";
  write_range(file, 0, 100'000);
  with_each_engine([&](io_backend backend) {
    {
      std::lock_guard const lock{seen().mutex};
      seen().texts.clear();
    }
    {
      running_daemon s{backend};
      auto& c = s.callers[0];
      auto const fd = c.open(file);
      REQUIRE(fd > 0);
      CHECK(c.read(fd, 4096, 8192) == 8192);
      CHECK(c.close(fd) == 0);
    }
    std::lock_guard const lock{seen().mutex};
    auto const wanted = "read \"" + file + "\": 1 read, 8192 bytes, pull";
    CHECK(std::ranges::count(seen().texts, wanted) == 1);
    CHECK(seen().open == 0);
  });
}
