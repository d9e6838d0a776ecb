#include <apps/ports/all.hpp>

namespace gpufs::apps {

std::vector<port_description const*> all_ports() {
  return {
      &port_2dconv, &port_atax, &port_bfs, &port_bicg, &port_gesummv, &port_mvt,
  };
}

}  // namespace gpufs::apps
