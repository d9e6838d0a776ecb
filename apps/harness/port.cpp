#include <apps/harness/port.hpp>

#include <stdexcept>

namespace gpufs::apps {

void port::prepare_fused(unsigned) {}

void port::compute_fused(chunk_io const&, unsigned, unsigned, device_arrays const&) {
  throw std::logic_error("this application has no fused computation");
}

std::vector<std::string> port::write_pictures(host_outputs const&, std::string const&) const {
  throw std::logic_error("this application writes no pictures");
}

}  // namespace gpufs::apps
