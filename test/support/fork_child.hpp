// Whether this process is a child of fork() of the suite that was started.
#pragma once

#include <unistd.h>

namespace gpufs::test {

inline ::pid_t const first_process = ::getpid();

inline bool is_fork_child() { return ::getpid() != first_process; }

}  // namespace gpufs::test
