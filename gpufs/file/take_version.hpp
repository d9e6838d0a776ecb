// How the version that a written file's record names becomes that of all callers, and what is noted
// of one that could not be taken.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/file/file_record.hpp>
#include <gpufs/file/shared_file.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/handle/deadline.hpp>
#include <gpufs/ring/channel.hpp>
#include <gpufs/ring/submit.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::file {

/// What is known of a version that could not be taken.
enum class untaken : std::uint64_t {
  tried,        ///< a caller tries again now: the others wait for the outcome
  callers,      ///< gwrites or a gftruncate took longer than config::rpc_timeout_ms
  write_error,  ///< dirty pages could not be written, and nobody had been told of the error
  other,
};

/// The word that says so from now on: device_clock_ns(), with the state in the last two bits. 0
/// means that no version waits.
__device__ __forceinline__ std::uint64_t untaken_word(untaken state) {
  return (device_clock_ns() & ~3ull) | static_cast<std::uint64_t>(state);
}
__device__ __forceinline__ untaken untaken_state(std::uint64_t word) {
  return static_cast<untaken>(word & 3);
}

/// Pause between two tries while nothing shows that one would succeed. A try has all dirty pages of
/// the file written.
inline constexpr std::uint64_t retry_pause_ns = 10'000'000;

/// Whether that pause has passed. Signed, as in past_deadline().
__device__ __forceinline__ bool past_pause(std::uint64_t word) {
  return static_cast<std::int64_t>(device_clock_ns() - word) >
         static_cast<std::int64_t>(retry_pause_ns);
}

/// Notes that a version could not be taken. Any thread calls. Relaxed: whoever is told that a gopen
/// has returned finds the note, and it announces nothing else.
__device__ __forceinline__ void note_untaken(shared_file& shared, untaken why) {
  untaken_of(shared).store(untaken_word(why), memory_order_relaxed);
}

/// Whether a caller that knows the present version should look for the one that could not be taken:
/// what was in the way has gone, nobody has tried for a while, or somebody is at it. Any thread
/// calls. `word`: what has been noted.
__device__ __forceinline__ bool may_be_taken(fs_ref const& fs, used_file const& file,
                                             std::uint64_t word) {
  if (word == 0) return false;
  untaken const state = untaken_state(word);
  if (state == untaken::tried) return true;
  if (atomic_ref<std::uint32_t, scope::device>(shared_of(fs, file).writers)
          .load(memory_order_relaxed) != 0)
    return handle::past_deadline(fs, word);
  return state == untaken::callers || past_pause(word) ||
         (state == untaken::write_error && earlier_write_error(fs, file) == 0);
}

/// A caller that knows the present version, and looks for one that could not be taken.
struct claim {
  shared_file* of = nullptr;
  std::uint64_t word = 0;  ///< what the caller has noted, as it tries; 0: it does not
  used_file known;         ///< with the present version, if `of` is set
};

/// Lets the calling thread try to take a version that could not be taken, if it may be taken now.
/// Or waits for the one that tries. Returns 0, -ETIMEDOUT or -EIO.
///
/// If gwrites are under way the others do not wait: they go on with the version that they know.
__device__ __forceinline__ std::int32_t claim_untaken(fs_ref const& fs, used_file const& file,
                                                      claim& mine) {
  shared_file& shared = shared_of(fs, file);
  auto const noted = untaken_of(shared);
  mine = {&shared, 0, file};
  std::uint64_t word = noted.load(memory_order_relaxed);
  while (may_be_taken(fs, file, word)) {
    if (untaken_state(word) == untaken::tried)
      return handle::spin_until(fs, handle::device_pause_ns,
                                [&] { return noted.load(memory_order_relaxed) != word; });
    bool const waits =
        atomic_ref<std::uint32_t, scope::device>(shared.writers).load(memory_order_relaxed) != 0;
    std::uint64_t const mark = untaken_word(waits ? untaken::callers : untaken::tried);
    if (noted.compare_exchange_strong(word, mark, memory_order_relaxed, memory_order_relaxed)) {
      mine.word = mark;
      return 0;
    }
  }
  return 0;
}

/// Ends a claim, if there is one. `word`: what to note, unless somebody has noted something since.
/// 0: no newer version waits.
__device__ __forceinline__ void end_claim(claim& mine, std::uint64_t word) {
  if (mine.word != 0)
    untaken_of(*mine.of).compare_exchange_strong(mine.word, word, memory_order_relaxed,
                                                 memory_order_relaxed);
  mine.word = 0;
}

/// Has the daemon write the file's dirty pages. Any single thread calls. Returns the daemon's
/// result, or -ETIMEDOUT or -EIO with `answered` false.
__device__ __forceinline__ std::int32_t flush_alone(fs_ref const& fs, std::int32_t fd,
                                                    bool& answered) {
  handle::channel_pool_ref const& pool = fs.channels.page;
  std::uint32_t index = warp_number() * pool.spacing % pool.count;
  ring::channel c;
  answered = false;
  if (int const error = handle::spin_until(fs, handle::device_pause_ns, [&] {
        index = index + 1 == pool.count ? 0 : index + 1;
        return ring::try_channel(fs, pool, index, c);
      }))
    return error;
  rpc::request r;
  r.op = rpc::operation::flush;
  r.file = fd;
  r.channel = c.number;
  r.sequence = c.sequence;
  // The daemon that sees the request sees the posts that await_writers() has waited for.
  ring::submit_alone<ring::carries::staged_data>(fs, r);
  std::int32_t const result = ring::await(fs, c, answered);
  handle::add(fs, handle::counter::requests);
  ring::return_channel(pool, c, answered);
  return result;
}

/// Takes the version that the descriptor's record names. The one that closed the gate calls, and
/// opens it afterwards. Returns 0, -EBADF, -ETIMEDOUT or -EIO.
///
/// A file that is open for writing can get a new version at any moment: by fs.write, or by the last
/// gclose of an O_GWRONCE descriptor. What gwrite posts until a caller comes here still has the old
/// version. Pages of the new version must not be read or written before the host file has those
/// bytes. Else a reader would cache pages without them, write-back could bring two buffers of a
/// page in the wrong order, and the host file's size would be too small for the next append. So
/// this call waits for the groups in gwrite, then has everything written, and only then passes
/// version and size on. Readers with the old version go on meanwhile. Nobody waits for this call
/// while joined to the writers, so there is no circle.
///
/// If the host cannot write the dirty pages, the old version stays, and so do its pages. A later
/// caller tries again, whichever version it knows: the note `untaken` says that there is a newer
/// one.
__device__ __forceinline__ std::int32_t take_version(fs_ref const& fs, shared_file& shared,
                                                     used_file& file) {
  std::uint64_t renewed = 0;
  std::int32_t error = load_record(fs, file.fd, file, &renewed);
  if (error != 0 || file.write_index == 0 || &shared_of(fs, file) != &shared) return error;
  std::uint64_t const current =
      atomic_ref<std::uint64_t, scope::device>(shared.version).load(memory_order_relaxed);
  if (current == file.version) return 0;  // another caller has taken it
  if (renewed != 0) {
    bool answered = false;
    error = await_writers(fs, shared);
    if (error != 0) {
      note_untaken(shared, untaken::callers);
      return error;
    }
    error = flush_alone(fs, file.fd, answered);
    if (error != 0) {
      bool const is_told = earlier_write_error(fs, file) == 0;
      note_untaken(shared, is_told ? untaken::other : untaken::write_error);
      if (!answered) return error;
      file.version = current;
      return 0;
    }
    // The gate is closed and nothing is dirty. So the record's size is right, whichever version it
    // has by now.
    error = load_record(fs, file.fd, file);
    if (error != 0 || file.write_index == 0 || &shared_of(fs, file) != &shared) return error;
  }
  adopt(fs, shared, file.version, file.size);
  return 0;
}

/// The loop of load_shared(). It may leave a claim behind.
__device__ __forceinline__ std::int32_t load_newest(fs_ref const& fs, used_file& file,
                                                    claim& mine) {
  for (;;) {
    shared_file& shared = shared_of(fs, file);
    atomic_ref<std::uint64_t, scope::device> const version(shared.version);
    std::int32_t error = 0;
    std::uint64_t const noted = untaken_of(shared).load(memory_order_relaxed);
    // Pairs with the release in adopt(): a thread that sees the version sees its size.
    if (version.load(memory_order_acquire) == file.version &&
        load_size(shared, file.version, file.size, noted)) {
      if (noted == 0 || mine.word != 0) return 0;
      error = claim_untaken(fs, file, mine);
      // Another caller may have taken the new version meanwhile.
      if (mine.word == 0 && (error != 0 || version.load(memory_order_relaxed) == file.version))
        return error;
    }
    error = load_record(fs, file.fd, file);
    if (error != 0 || file.write_index == 0) return error;
    if (&shared_of(fs, file) != &shared) {
      end_claim(mine, untaken_word(untaken::other));
      continue;
    }
    if (version.load(memory_order_relaxed) == file.version) {
      end_claim(mine, 0);
      continue;
    }
    if (try_close_gate(shared)) {
      error = take_version(fs, shared, file);
      open_gate(shared);
    } else {
      error = await_gate(fs, shared);
      if (error != 0) note_untaken(shared, untaken::callers);
    }
    if (error != 0 || file.write_index == 0) return error;
  }
}

/// Updates version and size of a written file. One thread calls. Returns 0, -EBADF, or -ETIMEDOUT
/// or -EIO if a new version could not be taken. A caller that knows the present version keeps it
/// instead of -ETIMEDOUT.
__device__ __forceinline__ std::int32_t load_shared(fs_ref const& fs, used_file& file) {
  claim mine;
  std::int32_t const error = load_newest(fs, file, mine);
  end_claim(mine, untaken_word(untaken::other));
  if (error != -ETIMEDOUT || mine.of == nullptr ||
      atomic_ref<std::uint64_t, scope::device>(mine.of->version).load(memory_order_relaxed) !=
          mine.known.version)
    return error;
  file = mine.known;
  return 0;
}

}  // namespace gpufs::file
