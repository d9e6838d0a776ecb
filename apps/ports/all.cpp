#include <apps/ports/all.hpp>

namespace gpufs::apps {

std::vector<port_description const*> all_ports() {
  return {
      &port_2dconv, &port_3dconv, &port_atax,       &port_backprop, &port_bfs,
      &port_bicg,   &port_dwt2d,  &port_gesummv,    &port_hotspot,  &port_lud,
      &port_mvt,    &port_nw,     &port_pathfinder, &port_stencil,
  };
}

}  // namespace gpufs::apps
