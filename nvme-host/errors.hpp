// What goes wrong with a controller.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gpufs::nvme_host {

/// The controller refused a command, or did not behave. what() says which and what to do.
struct controller_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A command ended with an error status.
struct command_error : controller_error {
  command_error(std::string const& what, std::uint16_t status_code)
      : controller_error{what}, code{status_code} {}
  std::uint16_t code;  ///< status code type << 8 | status code
};

}  // namespace gpufs::nvme_host
