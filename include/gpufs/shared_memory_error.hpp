// The error of shared memory that cannot be had or used.
#pragma once

#include <stdexcept>
#include <string>

namespace gpufs {

/// Thrown when a launch cannot have the shared memory that it uses, by allocate() and map() if the
/// object cannot be had, and by for_each_window(). Each says which errnos. what() names the object,
/// the file or the sizes, and the remedy.
class shared_memory_error : public std::runtime_error {
 public:
  /// `code`: an errno. `text`: what() it says.
  shared_memory_error(int code, std::string const& text) : std::runtime_error(text), code_(code) {}
  /// Returns the errno, above 0.
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

}  // namespace gpufs
