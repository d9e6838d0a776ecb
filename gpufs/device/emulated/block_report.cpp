// Reports of the block scheduler: why a block cannot go on, and where its threads stand.
#include <gpufs/device/emulated/block_scheduler.hpp>

namespace gpufs::emulated {

namespace {

std::string to_text(uint3 const& v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

std::string to_text(place const& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

char const* name_of(warp_operation what) {
  switch (what) {
    case warp_operation::sync: return "__syncwarp";
    case warp_operation::shuffle: return "a shuffle";
    case warp_operation::ballot:
    case warp_operation::any:
    case warp_operation::all: return "a vote";
    case warp_operation::match_any: return "__match_any_sync";
  }
  return "";
}

}  // namespace

// Describes where a thread stands. Threads that stand alike get equal texts.
std::string block_scheduler::describe(thread const& t) const {
  switch (t.now) {
    case state::able: return "can run";
    case state::in_barrier: return "at the block barrier at " + to_text(t.where);
    case state::in_warp_operation: {
      char hex[2 + 8 + 1] = "0x";
      for (int digit = 0; digit < 8; ++digit)
        hex[2 + digit] = "0123456789abcdef"[t.mask >> (28 - 4 * digit) & 15];
      return "at " + std::string(name_of(t.operation)) + " of lanes " + hex + " at " +
             to_text(t.where);
    }
    case state::in_converged: return "at converged() at " + to_text(t.where);
    case state::returned:
      return t.has_place ? "returned from the kernel, after " + to_text(t.where)
                         : "returned from the kernel";
  }
  return "";
}

std::string block_scheduler::report_standstill() const {
  constexpr unsigned most_groups = 8;
  std::string text = "its threads wait for each other and none can go on:";
  unsigned groups = 0;
  unsigned left_out = 0;
  std::string seen[most_groups];
  for (unsigned rank = 0; rank < thread_count_; ++rank) {
    std::string const stand = describe(threads_[rank]);
    unsigned known = 0;
    while (known < groups && seen[known] != stand) ++known;
    if (known < groups) continue;
    if (groups == most_groups) {
      ++left_out;
      continue;
    }
    seen[groups++] = stand;
    unsigned alike = 0;
    for (unsigned other = rank; other < thread_count_; ++other)
      alike += describe(threads_[other]) == stand ? 1 : 0;
    text += "\n  " + std::to_string(alike) + " of " + std::to_string(thread_count_) +
            " threads, the first " + to_text(threads_[rank].identity.index) + ": " + stand;
  }
  if (left_out != 0) text += "\n  " + std::to_string(left_out) + " more threads elsewhere";
  return text;
}

std::string block_scheduler::report() const {
  std::string const in_block = "kernel failed in block " + to_text(task_->index) + ": ";
  switch (verdict_.what) {
    case verdict::kind::none:
    case verdict::kind::abandoned: return "";
    case verdict::kind::standstill: return in_block + report_standstill();
    case verdict::kind::mismatch:
      return in_block + "its threads stand at different places:\n  thread " +
             to_text(verdict_.other->identity.index) + " " + describe(*verdict_.other) +
             "\n  thread " + to_text(verdict_.one->identity.index) + " " + describe(*verdict_.one);
    case verdict::kind::refused:
      return in_block + verdict_.why + ", thread " + to_text(verdict_.one->identity.index) +
             (verdict_.one->where.line() == 0 ? "" : " at " + to_text(verdict_.one->where));
  }
  return "";
}

}  // namespace gpufs::emulated
