// The error of shared memory that cannot be had.
#pragma once

#include <stdexcept>
#include <string>

namespace gpufs {

/// Thrown when a launch cannot have the shared memory that it uses, and by allocate() if there is
/// none left. what() names the object or the sizes, and the remedy. code() is an errno.
class shared_memory_error : public std::runtime_error {
 public:
  /// `code`: an errno. `text`: what() it says.
  shared_memory_error(int code, std::string const& text) : std::runtime_error(text), code_(code) {}
  /// The errno, ENOMEM.
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

}  // namespace gpufs
