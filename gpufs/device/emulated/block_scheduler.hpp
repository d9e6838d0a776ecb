// Runs the threads of one block as fibers of the calling OS thread. It has their turns, barriers
// and warp operations, and the report when no thread can go on. Each OS thread has its own. OS
// threads share only the launch.
#pragma once

#include <gpufs/device/emulated/fiber.hpp>
#include <gpufs/device/emulated/threads.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace gpufs::emulated {

/// A block's part of its launch.
struct block_task {
  std::function<void()> const* thread_body = nullptr;  ///< each thread calls it
  uint3 index{};
  dim3 block_size{};
  dim3 grid_size{};
  std::uint64_t dynamic_shared_bytes = 0;
  std::uint64_t seed = 0;       ///< of the block's order of threads
  unsigned preempt = 0;         ///< as in settings
  unsigned split = 0;           ///< as in settings
  std::size_t stack_bytes = 0;  ///< as in settings
  /// set, atomically, once another block of the launch has failed; waits may then end
  bool const* abandoned = nullptr;
};

class block_scheduler {
 public:
  block_scheduler() = default;
  ~block_scheduler();

  /// Runs a block to its end. Returns an empty string if the block ended or was abandoned, and
  /// otherwise the report of its failure. Throws device_error if there is no memory for its
  /// threads' stacks.
  [[nodiscard]] std::string run(block_task const& task);

  /// Releases the sanitizers' state of fibers, where the process has too many. Called when a kernel
  /// ends.
  void trim_sanitizer_state();

  // Operations of device code (threads.hpp). The running fiber calls them.
  int barrier(reduction what, bool predicate, place const& where);
  std::uint64_t warp(warp_operation what, unsigned mask, std::uint64_t value, unsigned source,
                     place const& where);
  unsigned converged(place const& where);
  void yield_waiting(bool first);
  void preempt();
  [[noreturn]] void fail(char const* why, place const& where);

  /// Returns the scheduler of the block that this OS thread runs.
  [[nodiscard]] static block_scheduler& current();

 private:
  enum class state : std::uint8_t { able, in_barrier, in_warp_operation, in_converged, returned };

  struct thread {
    thread_identity identity;
    state now = state::returned;
    warp_operation operation = warp_operation::sync;
    unsigned tag = 0;         // orders the accesses of lanes in the same __syncwarp
    unsigned mask = 0;        // of the warp operation
    unsigned source = 0;      // lane that a shuffle reads
    std::uint64_t value = 0;  // operand of the operation; afterwards its result
    place where;              // of the last collective operation
    bool has_place = false;
    fiber context;
  };

  // More tags than there can be groups of lanes in operations. So no tag in use is taken again.
  static constexpr unsigned warp_tags = 2 * warp_size;
  struct warp_state {
    unsigned waiting = 0;   // lanes in a warp operation
    unsigned returned = 0;  // lanes that have ended, or do not exist
    unsigned next_tag = 0;
    char tag[warp_tags] = {};
  };

  // Why the block cannot go on. Threads set it; the OS thread puts it into words.
  struct verdict {
    enum class kind : std::uint8_t {
      none,
      standstill,
      mismatch,
      refused,
      abandoned
    } what = kind::none;
    thread const* one = nullptr;
    thread const* other = nullptr;
    char const* why = nullptr;
  };

  static void thread_main(void* argument);
  void prepare_threads(block_task const& task);
  void reset(block_task const& task);
  void make_able(thread& t);
  [[nodiscard]] thread& take_next();
  void switch_to_next();
  void thread_returned();
  void abandon_threads();
  [[noreturn]] void leave_for_good();
  [[noreturn]] void give_up(verdict const& v);
  void give_core_away();
  void require_same_place(thread const& there, thread const& here);
  void try_complete_warp(warp_state& w, unsigned first_rank, unsigned mask);
  void compute_results(warp_operation what, thread* lanes, unsigned participants);
  void resolve_converged();
  [[nodiscard]] std::uint32_t random_below(std::uint32_t bound);
  [[nodiscard]] std::string report() const;
  [[nodiscard]] std::string report_standstill() const;
  [[nodiscard]] std::string describe(thread const& t) const;

  // threads_ owns; code on fibers uses thread_array_. Indexing a unique_ptr is a call, which
  // ThreadSanitizer instruments.
  std::unique_ptr<thread[]> threads_;
  thread* thread_array_ = nullptr;
  std::size_t stack_bytes_ = 0;
  unsigned started_ = 0;  // threads with a stack, and thread_main on it
  unsigned spares_ = 0;   // more threads than the first few whose sanitizers' state is kept

  unsigned thread_count_ = 0;
  unsigned able_count_ = 0;
  unsigned yielded_count_ = 0;
  unsigned converged_count_ = 0;
  unsigned returned_count_ = 0;
  std::uint16_t able_[max_block_threads] = {};
  // in a wait; they run when no other thread can
  std::uint16_t yielded_[max_block_threads] = {};
  warp_state warps_[max_block_warps];
  thread* running_ = nullptr;
  fiber os_thread_;

  // Barriers alternate between two tags and results. A thread is at most one barrier ahead of
  // another.
  unsigned barrier_generation_ = 0;
  unsigned barrier_arrived_ = 0;
  unsigned barrier_true_ = 0;
  thread const* barrier_first_ = nullptr;
  int barrier_result_[2] = {};
  char barrier_tag_[2] = {};
  char start_tag_ = 0;
  char end_tag_ = 0;

  unsigned idle_rounds_ = 0;
  std::uint64_t random_state_ = 0;
  unsigned preempt_ = 0;
  unsigned split_ = 0;
  bool abandoning_ = false;
  verdict verdict_;
  block_task const* task_ = nullptr;
};

}  // namespace gpufs::emulated
