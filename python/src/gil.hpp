// Giving the GIL away and taking it, also while the interpreter ends.
//
// A thread that takes the GIL once the interpreter ends is ended by Python (before 3.14), and a
// destructor through which it is unwound ends the whole process: no handler of exit() runs, and
// bytes that mappings have not written back are lost. So such threads stay where they are.
#pragma once

#include <nanobind/nanobind.h>

namespace gpufs::python {

/// Gives the GIL away while it lives. The caller has it.
///
/// The end of its life does not return once end_of_python() has been called by another thread.
class without_gil {
 public:
  without_gil();
  ~without_gil();
  without_gil(without_gil const&) = delete;
  without_gil& operator=(without_gil const&) = delete;

 private:
  PyThreadState* thread_;
};

/// Has the GIL while it lives. The caller may have it.
///
/// The constructor does not return once end_of_python() has been called by another thread.
class with_gil {
 public:
  with_gil();
  ~with_gil();
  with_gil(with_gil const&) = delete;
  with_gil& operator=(with_gil const&) = delete;

 private:
  PyGILState_STATE before_;
};

/// Lets no other thread take the GIL through this file any more, and waits for those that are about
/// to have it. The caller has the GIL, and ends the interpreter.
void end_of_python();

}  // namespace gpufs::python
