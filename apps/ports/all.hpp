// The fourteen applications of the GPUfs readahead paper, Table 1. Each is described in its .cu
// file.
#pragma once

#include <apps/harness/port.hpp>

#include <vector>

namespace gpufs::apps {

extern port_description const port_2dconv;
extern port_description const port_3dconv;
extern port_description const port_atax;
extern port_description const port_backprop;
extern port_description const port_bfs;
extern port_description const port_bicg;
extern port_description const port_dwt2d;
extern port_description const port_gesummv;
extern port_description const port_hotspot;
extern port_description const port_lud;
extern port_description const port_mvt;
extern port_description const port_nw;
extern port_description const port_pathfinder;
extern port_description const port_stencil;

/// All of them, by name.
[[nodiscard]] std::vector<port_description const*> all_ports();

}  // namespace gpufs::apps
