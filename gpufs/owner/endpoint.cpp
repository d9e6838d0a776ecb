#include <gpufs/owner/allocate.hpp>
#include <gpufs/owner/endpoint.hpp>
#include <gpufs/owner/twin_copier.hpp>
#include <gpufs/owner/window_mapper.hpp>

#include <chrono>
#include <cstddef>

namespace gpufs::owner {

endpoint::endpoint(config const& settings, layout const& sizes, testing::fault_injector* faults,
                   daemon::request_recorder& requests)
    : subsystems_(settings, sizes),
      handle_(on_device<fs_ref>(1, "the handle", lower_cache)),
      ref_(subsystems_.ref()) {
  // A block's copy of the handle has its own address there (io/group.hpp).
  static_assert(offsetof(fs_ref, self) == 0);
  ref_.self = handle_.data();
  handle_.copy_from_host(&ref_, 1);
  make_transfers(settings, sizes, faults);
  make_windows(settings, sizes, faults, requests);
}

void endpoint::make_transfers(config const& settings, layout const& sizes,
                              testing::fault_injector* faults) {
  if (settings.path != io_path::dma) return;
  transfers_ = std::make_unique<daemon::transfer_engine>(
      make_twin_copier(ref_.link.shared.staging, ref_.link.twin), sizes.channels,
      std::chrono::milliseconds(settings.dma_timeout_ms), faults);
}

void endpoint::make_windows(config const& settings, layout const& sizes,
                            testing::fault_injector* faults, daemon::request_recorder& requests) {
  if (sizes.window_budget == 0) return;
  windows_ = std::make_unique<daemon::window_registrar>(
      make_window_mapper(ref_.windows.entries, sizes.window_entries, ref_.seats.claimed),
      daemon::window_settings{.window_bytes = settings.file_window_size,
                              .budget = sizes.window_budget,
                              .which = files_to_register(settings),
                              .cachestat = {},
                              .requests = &requests},
      faults);
}

}  // namespace gpufs::owner
