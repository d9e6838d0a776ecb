// The objects of a gpufs::shared_memory, and the protocols between CPU and device.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/device/call_ends.hpp>
#include <gpufs/mapping/arena.hpp>
#include <gpufs/mapping/block_states.hpp>
#include <gpufs/mapping/block_transfers.hpp>
#include <gpufs/mapping/fault_queue.hpp>
#include <gpufs/mapping/file_lane.hpp>
#include <gpufs/mapping/file_pieces.hpp>
#include <gpufs/mapping/file_side.hpp>
#include <gpufs/mapping/file_transfers.hpp>
#include <gpufs/mapping/glimpse_clock.hpp>
#include <gpufs/mapping/guard.hpp>
#include <gpufs/mapping/memory_ahead.hpp>
#include <gpufs/mapping/profile_keeper.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/mapping/requests.hpp>
#include <gpufs/mapping/thread_text.hpp>
#include <gpufs/mapping/tier_account.hpp>
#include <gpufs/mapping/touch_reader.hpp>
#include <gpufs/mapping_options.hpp>
#include <gpufs/mapping_statistics.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace gpufs::shared {

/// All state is protected by one mutex, taken with signals blocked. Nobody waits for a call with
/// it. The service thread answers faults of CPU threads; these hold nothing while they wait.
class address_space {
 public:
  /// Throws as shared_memory's constructor. The settings are valid.
  address_space(mapping_config const& settings, spill_file_maker spill_files,
                profile_keeper profile);
  /// Waits for calls. All objects are gone.
  ~address_space();

  /// Throws as shared_memory::allocate(). The options are valid.
  object& allocate(std::uint64_t bytes, map_options const& options);
  /// Throws as shared_memory::map(). The options are valid.
  object& map_file(file_to_map const& what, map_options const& options);
  /// As mapping::unmap(). What the program has never had is not written back.
  int remove(object& o, bool is_written_back = true);

  /// See mapping's functions of these names. `first` and `bytes` lie in the object.
  int write_back(object& o, byte_run what, bool makes_durable);
  /// The process ends: stops all reads of files, and writes back all objects. stderr has the
  /// errors. May wait for calls, as long as their kernels run.
  void end_with_process() noexcept;
  int refresh(object& o);
  int discard(object& o);
  /// Throws what `open` throws.
  int remap(object& o, access use, file_opener const& open);
  [[nodiscard]] std::vector<std::string> errors(object const& o) const;
  [[nodiscard]] std::vector<byte_run> unwritten(object const& o) const;
  [[nodiscard]] static std::string why_refused() { return why_refused_; }  ///< this thread's last

  /// Whether bytes from `first` on have addresses of the reservation, or the first is an object's.
  [[nodiscard]] bool has_addresses(void const* first, std::uint64_t bytes) const;
  [[nodiscard]] bool has_reserved(void const* first, std::uint64_t bytes) const;  ///< the former
  [[nodiscard]] std::byte* address_of(std::uint64_t at) const { return range_.address_of(at); }
  [[nodiscard]] std::uint64_t offset_of(void const* p) const { return range_.offset_of(p); }
  /// The object that has an address; no bytes: there is none.
  [[nodiscard]] object_place find(void const* address) const;

  /// Brings what the device lacks for a call, as begin() does, but with signals. Returns as that.
  int prepare(parts_of_call const& parts);
  /// Hands blocks to the device for a call. No parts: all objects, for reading and writing.
  /// Returns the call's number, which end_behind() needs, 0: it uses nothing, or
  ///   -EINVAL an object has gone | -EACCES it would write to one that is only read
  ///   -EAGAIN bytes are missing and not to be brought | -EIO | the error of a file
  std::int64_t begin(parts_of_call const& parts, beginning const& how);
  /// What a call uses that names bytes by their address: those that lie in the object that has the
  /// first one. Nothing: there is none, or no byte.
  [[nodiscard]] std::optional<part> part_at(void const* first, std::uint64_t bytes, bool writes);
  /// Of a launch that has a name, in this order. Before it begins: chunks that such launches touch
  /// are wanted in device memory; managed memory: waits for other calls.
  void expect_launch(parts_of_call const& parts, std::string const& name) noexcept;
  /// Since it has begun. Returns whether it is seen what the launch touches.
  bool watch_launch(parts_of_call const& parts) noexcept;
  /// Then, when the launch has ended, and before the call does.
  void keep_touches(parts_of_call const& parts, std::string const& name) noexcept;
  /// Ends the call behind the work that the stream has so far.
  void end_behind(stream& on, std::int64_t call) noexcept;
  /// Ends a call for which nothing was launched: the CPU's side of batch objects stays the newest.
  void cancel(std::int64_t call) noexcept;

  /// Waits for calls that have been launched, with signals.
  void wait_for_calls();
  void acquire_batches();  ///< fetches batch objects that no call uses; throws device_error
  int acquire(object& o, wanted const& what);
  int send(object& o, block_run r);

  /// Puts bytes of a piece of I/O to the offsets [at, at + bytes), as soon as no call uses them.
  /// The device may read the piece until wait_for_copies(). Returns 0, -EFAULT: they do not all lie
  /// in one object, or -EIO. Source of the way: ADSM, section 4.4.
  int scatter(std::uint64_t at, staging_piece& from, std::uint64_t bytes);
  /// Puts [at, at + bytes) into the piece, as soon as no call may write them. All of them are there
  /// after wait_for_copies(). Returns as scatter().
  int gather(std::uint64_t at, staging_piece& to, std::uint64_t bytes);
  /// Waits until calls let go of [at, at + bytes), as scatter() and gather() do.
  void wait_for_use(std::uint64_t at, std::uint64_t bytes, bool writes);
  int make_ready(std::uint64_t at, std::uint64_t bytes);  ///< waits for, and returns, as scatter()
  int wait_for_copies(staging_piece const& piece) noexcept;             ///< returns 0 or -EIO
  [[nodiscard]] staging_pool::lease take_staging(std::uint64_t bytes);  ///< throws device_error
  [[nodiscard]] std::size_t io_threads() const { return settings_.fill_threads; }

  /// Threads and device are the parent's there.
  [[nodiscard]] bool in_forked_child() const { return ::getpid() != process_; }
  void refuse_in_forked_child() const;  ///< throws shared_memory_error

  void advise(object& o, block_run r, memory_advice advice);
  [[nodiscard]] memory_tiers tiers(object const* of = nullptr) const;
  [[nodiscard]] tier_budgets budgets() const;

  [[nodiscard]] coherence_protocol protocol_for(map_options const& options) const;
  [[nodiscard]] bool is_to_be_managed(map_options const& options) const;
  [[nodiscard]] bool has_only_managed() const { return range_.bytes() == 0; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] bool lets_system_calls_wait() const { return range_.stops_system_calls(); }
  [[nodiscard]] mapping_statistics counts(object const* of = nullptr) const;
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  object& add(std::uint64_t bytes, map_options const& options, std::unique_ptr<file_side> file);
  // All of these need the mutex.
  [[nodiscard]] std::uint64_t take_room(std::uint64_t bytes, std::string const& of);
  void give_back_room(std::uint64_t offset, std::uint64_t bytes) noexcept;
  void set_up(object& o);
  void set_up_managed(object& o);
  void set_up_states(object& o);
  void set_up_file(object& o);
  void set_up_chunks(object& o);
  void forget(quiet_lock& lock, object& o) noexcept;
  [[nodiscard]] int use_anew(quiet_lock& lock, object& o, file_to_map const& what);
  [[nodiscard]] bool use_host_side(object& o, file_to_map const& what);
  void stop_filling(quiet_lock& lock, object& o);
  void join_filler(quiet_lock& lock, object& o);
  using used_objects = std::vector<std::pair<object*, use>>;
  [[nodiscard]] int collect(parts_of_call const& parts, used_objects& all);
  [[nodiscard]] int bring_all(quiet_lock& lock, parts_of_call const& parts, missing_bytes missing,
                              used_objects& all);
  int bring(quiet_lock& lock, object& o, block_run blocks);
  [[nodiscard]] std::optional<int> bring_for_cpu(quiet_lock& lock, object& o, wanted const& what);
  int fill(quiet_lock& lock, object& o, block_run units);
  [[nodiscard]] std::vector<fill_piece> pieces_to_fill(object& o, block_run units);
  void end_left_over(object& o, fill_job& job);
  [[nodiscard]] bool reads_no_more(file_side const& f) const;
  [[nodiscard]] bool is_stopped(file_side const& f) const;
  void note_error(object& o, std::uint64_t offset, int error) noexcept;
  void tell_changes();
  [[nodiscard]] bool keeps_writers_out(object const& o) const;
  [[nodiscard]] bool may_be_written(object const& o, block_run r) const;
  [[nodiscard]] bool close_written(object& o, block_run r);
  [[nodiscard]] std::vector<write_piece> pieces_to_write(object& o, block_run blocks);
  int write_from_host(object& o, block_run blocks);
  struct written_pages;
  [[nodiscard]] static written_pages all_written(file_side const& f,
                                                 std::vector<write_piece> const& pieces);
  int end_write_back(object& o, std::vector<write_piece> const& pieces, written_pages at_most);
  [[nodiscard]] int make_durable(quiet_lock& lock, object& o);
  int drop(object& o, bool also_changed);
  int drop_bytes(object& o, bool also_changed);
  [[nodiscard]] int close_all(object& o, bool drops_changed);
  void make_dirty(object& o, std::uint64_t block, bool rolls);
  [[nodiscard]] block_run hand_over(object& o, use const& u, bool is_first);
  void leave_to_device(object& o, block_run written);
  void order(stream& on, used_objects const& all);
  void use_range(object& o, use const& u);
  void take_ended_calls() noexcept;
  void end_call(std::int64_t call) noexcept;
  void drop_uses(std::int64_t call) noexcept;
  void fail() noexcept;
  static int lacks_memory() noexcept;
  struct declared_object;
  [[nodiscard]] std::vector<declared_object> declared(parts_of_call const& parts, bool is_managed);
  void note_profile(std::string const& what);
  [[nodiscard]] static bool heat_chunks(object& o, block_runs const& units);
  void count_call(used_objects const& all, bool is_declared);
  void end_use(object& o, block_run r);
  object* object_at(std::uint64_t offset);
  object* object_with(std::uint64_t at, std::uint64_t bytes);
  object* wait_for_calls(quiet_lock& lock, std::uint64_t at, std::uint64_t bytes, bool writes);
  object* wait_for_bytes(quiet_lock& lock, std::uint64_t at, std::uint64_t bytes, bool writes,
                         int& error);
  [[nodiscard]] bool is_home_at_device(object const& o, std::uint64_t block) const;
  [[nodiscard]] bool scatter_to_host(object& o, std::uint64_t block, std::uint64_t to,
                                     std::span<std::byte const> bytes);
  template <class Condition>
  void wait_until(quiet_lock& lock, Condition const& holds);
  [[nodiscard]] fault_answer answer_to(quiet_lock& lock, fault const& f);
  [[nodiscard]] fault_answer serve(quiet_lock& lock, object& o, std::uint64_t block,
                                   touch_kind kind);
  [[nodiscard]] fault_answer serve_absent(quiet_lock& lock, object& o, block_run one);
  [[nodiscard]] fault_answer serve_single(object& o, std::uint64_t block, bool writes);
  [[nodiscard]] fault_answer glimpse(object& o, std::uint64_t block, touch_kind kind);
  void end_glimpses(object& o, block_run r);
  void expect_next(object& o, std::uint64_t block) noexcept;
  struct placed_chunks;
  [[nodiscard]] int place_all(quiet_lock& lock, used_objects const& all, missing_bytes missing,
                              std::size_t& cuts);
  [[nodiscard]] bool must_plan(used_objects const& all);
  [[nodiscard]] placed_chunks all_chunks(used_objects const& all);
  [[nodiscard]] int refuse_to_place(placed_chunks const& all);
  [[nodiscard]] bool can_move(object const& o, block_run blocks) const;
  [[nodiscard]] int carry_out(quiet_lock& lock, placed_chunks const& all,
                              std::vector<planned_move> const& moves, std::size_t& cuts);
  [[nodiscard]] int move_chunk(quiet_lock& lock, object& o, std::size_t i, tier to, bool is_last);
  void leave_device(quiet_lock& lock, object& o, std::size_t i);
  [[nodiscard]] int enter_device(quiet_lock& lock, object& o, std::size_t i);
  void leave_host(quiet_lock& lock, object& o, std::size_t i);
  void leave_file_windows(quiet_lock& lock, object& o);
  [[nodiscard]] int enter_host(quiet_lock& lock, object& o, std::size_t i);
  void use_at_host(object& o, std::size_t i);
  void set_tier(object& o, std::size_t i, tier to);
  void forget_chunks(object& o);
  void keep_at_host(object& o, block_run blocks);
  void send_chunk(object& o, block_run blocks);
  [[nodiscard]] bool send_protected(object& o, block_run blocks);
  void give_up_at_host(quiet_lock& lock, object& o, std::size_t i);
  void drop_partly_absent(object& o, block_run blocks);
  void shrink_budget(tier t, std::string const& why);
  void open_single(object& o, block_run r);
  void restore_single(object& o, block_run r);
  void count_as_written(object& o, block_run r);
  void still_single(object& o, block_run r);
  void spill(quiet_lock& lock, bool may_unpin) noexcept;
  void spill_chunk(quiet_lock& lock, object& o, std::size_t i);
  void give_to_file(object& o, std::size_t i, std::vector<block_run> const& written);
  [[nodiscard]] std::optional<std::pair<object*, std::size_t>> coldest_kept(bool may_unpin);

  // Without the mutex, in threads of their own.
  [[nodiscard]] bool give_memory_ahead();
  void fill_eagerly(object& o);
  void fill_managed(object& o);
  void fill_pieces(object& o, fill_job& job, file_lane& lane);
  [[nodiscard]] int start_piece(object& o, fill_piece const& piece, file_lane& lane,
                                staging_piece& to, bool& is_direct);
  void end_piece(object& o, fill_job& job, fill_piece& piece, int error, bool is_direct);
  void write_pages(object& o, write_piece& piece, file_lane& lane);
  // In the service thread.
  void serve_faults();
  [[nodiscard]] bool answer_all(fault*& open);
  [[nodiscard]] bool try_to_answer(fault& f);
  [[nodiscard]] bool end_old_glimpses();

  pid_t process_ = ::getpid();
  mapping_config settings_;
  int device_;
  std::vector<std::string> notes_;
  guarded_range range_;
  staging_pool staging_, small_staging_;
  block_transfers transfers_;
  block_states states_;
  file_transfers files_;
  mutable std::mutex mutex_;
  std::atomic<std::uint32_t> changes_{0};  ///< calls have ended, or the device has failed
  arena free_;
  std::map<std::uint64_t, object> objects_;  ///< by offset
  bool has_failed_ = false;
  std::size_t open_faults_ = 0;  ///< that the service thread has looked at; a change may help them
  unsigned waiters_ = 0;         ///< threads that wait for a change
  std::uint64_t last_object_ = 0;
  std::int64_t last_call_ = 0;
  std::set<std::int64_t> ending_;  ///< calls that have a mark behind them, which is not reached
  tier_account tiers_;
  profile_keeper profile_;
  static inline thread_text why_refused_;
  std::string to_say_;
  fault_queue faults_;
  glimpse_clock glimpses_;  ///< of the service thread
  device_memory::call_ends ends_{[this](std::int64_t call) {
    quiet_lock const lock(mutex_);
    end_call(call);
  }};
  std::atomic<bool> stops_{false};
  std::atomic<pid_t> ends_process_{0};  ///< the thread that does so: no file is read any more
  std::optional<guard> guard_;
  std::optional<touch_reader> touches_;
  std::thread service_;  // last, since it uses all of the above
  memory_ahead ahead_{[this] { return give_memory_ahead(); }};  // as that
};

}  // namespace gpufs::shared
