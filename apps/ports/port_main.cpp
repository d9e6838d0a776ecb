// The program of one application: GPUFS_PORT names its description.
#include <apps/harness/program.hpp>
#include <apps/ports/all.hpp>

int main(int argc, char** argv) {
  return gpufs::apps::run_port(gpufs::apps::GPUFS_PORT, argc, argv);
}
