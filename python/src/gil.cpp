#include <python/src/gil.hpp>

#include <atomic>
#include <thread>

#include <unistd.h>

namespace gpufs::python {

namespace {

// Atomics, not a mutex: a child of fork() could find that locked.
std::atomic<std::thread::id> ended_by{};  // no thread: the interpreter goes on
std::atomic<unsigned> taking{0};          // threads that wait for the GIL
pid_t const process = ::getpid();

[[noreturn]] void stay() {
  for (;;) ::pause();
}

void has_taken() {
  if (taking.fetch_sub(1) == 1) taking.notify_all();
}

// Counts first and looks then, and end_of_python() the other way round: it waits for this thread,
// or this thread sees the end.
void begin_to_take() {
  taking.fetch_add(1);
  auto const by = ended_by.load();
  if (by == std::thread::id() || by == std::this_thread::get_id()) return;
  has_taken();
  stay();
}

/// Objects of threads that Python ends are never freed. nanobind would list them.
void allow_leaks_of_other_threads() {
  PyThreadState* const first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  if (PyThreadState_Next(first) != nullptr) nanobind::set_leak_warnings(false);
}

}  // namespace

without_gil::without_gil() : thread_(PyEval_SaveThread()) {}

without_gil::~without_gil() {
  begin_to_take();
  PyEval_RestoreThread(thread_);
  has_taken();
}

with_gil::with_gil() {
  begin_to_take();
  before_ = PyGILState_Ensure();
  has_taken();
}

with_gil::~with_gil() { PyGILState_Release(before_); }

void end_of_python() {
  allow_leaks_of_other_threads();
  if (process != ::getpid()) return;  // what the threads of the parent were about to do counts
  PyThreadState* const thread = PyEval_SaveThread();
  ended_by = std::this_thread::get_id();
  for (unsigned now = taking; now != 0; now = taking) taking.wait(now);
  PyEval_RestoreThread(thread);
}

}  // namespace gpufs::python
