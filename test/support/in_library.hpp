// Marks calls of the library, for suites that refuse only what these calls need.
#pragma once

namespace gpufs::test {

/// This thread is in a call of the library. Threads of the library never set it.
inline thread_local bool in_library = false;

/// Calls the library from this thread. Returns the call's result.
template <class Call>
auto library(Call const& call) -> decltype(call()) {
  struct mark {
    mark() { in_library = true; }
    ~mark() { in_library = false; }
  };
  mark const while_it_runs;
  return call();
}

}  // namespace gpufs::test
