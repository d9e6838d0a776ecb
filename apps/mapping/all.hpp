// The workloads, a line each. A file apps/mapping/NAME.cu, or one of apps/mapping/files, defines
// workload_NAME.
#pragma once

#include <apps/mapping/workload.hpp>

/// Objects without files (ADSM's programs).
#define GPUFS_ADSM_WORKLOADS(WORKLOAD) \
  WORKLOAD(vecadd)                     \
  WORKLOAD(wave)                       \
  WORKLOAD(lists)                      \
  WORKLOAD(cp)                         \
  WORKLOAD(tpacf)                      \
  WORKLOAD(mri_q)                      \
  WORKLOAD(mri_fhd)                    \
  WORKLOAD(pns)                        \
  WORKLOAD(sad)                        \
  WORKLOAD(rpes)

/// Objects that are files (DRAGON's programs).
#define GPUFS_FILE_WORKLOADS(WORKLOAD) \
  WORKLOAD(vectorAdd)                  \
  WORKLOAD(BlackScholes)               \
  WORKLOAD(update)                     \
  WORKLOAD(hotspot)                    \
  WORKLOAD(pathfinder)                 \
  WORKLOAD(srad_v2)                    \
  WORKLOAD(backprop)                   \
  WORKLOAD(binomialOptions)            \
  WORKLOAD(lavaMD)                     \
  WORKLOAD(layers)                     \
  WORKLOAD(outofcore_bfs)

namespace gpufs::apps::workloads {

#define GPUFS_DECLARE(name) extern description const workload_##name;
GPUFS_ADSM_WORKLOADS(GPUFS_DECLARE)
GPUFS_FILE_WORKLOADS(GPUFS_DECLARE)
#undef GPUFS_DECLARE

}  // namespace gpufs::apps::workloads
