// Calls a function at the end of a scope, also if an exception leaves it.
#pragma once

#include <utility>

namespace gpufs::shared {

/// Calls `function`, which throws nothing, when it is destroyed.
template <class Function>
class at_end {
 public:
  explicit at_end(Function function) : function_(std::move(function)) {}
  ~at_end() { function_(); }
  at_end(at_end const&) = delete;
  at_end& operator=(at_end const&) = delete;

 private:
  Function function_;
};

}  // namespace gpufs::shared
