#include <apps/ports/all.hpp>

namespace gpufs::apps {

std::vector<port_description const*> all_ports() {
  return {
      &port_2dconv,
      &port_bfs,
  };
}

}  // namespace gpufs::apps
