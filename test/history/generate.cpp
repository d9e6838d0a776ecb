// Random programs.
#include <gpufs/file.hpp>

#include <test/history/overlaps.hpp>
#include <test/history/program.hpp>
#include <test/support/settings.hpp>

#include <algorithm>
#include <random>

namespace gpufs::history {

namespace {

struct open_handle {
  std::int32_t number;
  std::uint32_t filesystem;
  std::uint32_t actor;
  int flags;
  bool shared;  ///< of the first phase: all actors of the filesystem use it
};

/// Adds calls one by one. The order in which they are added is one in which they can run: each
/// waits for earlier ones alone.
class generator {
 public:
  explicit generator(std::uint64_t seed) : random_(seed) { p_.seed = seed; }

  program make() {
    choose_settings();
    if (one_in(30)) return crowd();
    choose_kind();
    make_actors();
    open_shared();
    auto const steps = 8 + below(one_in(4) ? 60 : 25);
    for (std::uint64_t i = 0; i < steps && p_.calls.size() < 150; ++i) {
      if (one_in(12))
        reopen();
      else
        add_call(pick_actor());
    }
    return std::move(p_);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

  void choose_settings() {
    auto const page = one_of<std::uint64_t>({512, 512, 512, 1024, 4096});
    auto c = test::small_config(page, one_of<std::uint64_t>({8, 8, 16, 32}));
    c.prefetch_memory = 1 << 20;
    c.prefetch_size = one_of<std::uint64_t>({0, 0, page, 4 * page, prefetch_automatic});
    c.path = test::built_paths[below(std::size(test::built_paths))];
    c.policy = one_of({replacement::lra, replacement::fifo, replacement::clock});
    c.backend = one_of({io_backend::automatic, io_backend::pread});
    c.host_threads = 1 + std::uint32_t(below(2));
    c.write_memory = one_of<std::uint64_t>({4096, 16384, 65536});
    c.file_window_size = 65536;
    p_.settings = c;
    p_.initial_size = one_in(8) ? 0 : below(4 * page + 1);
    p_.block_threads = one_of<unsigned>({32, 64, 64, 96});
    p_.tiles = one_in(4);
    if (p_.tiles) p_.block_threads = 64;
    p_.slow = one_in(4);
  }

  /// Many lanes read elements of more pages than there are frames. None may fail or starve.
  program crowd() {
#if defined(GPUFS_EMULATED)
    constexpr std::uint64_t page = 4096, blocks = 6;
#else
    constexpr std::uint64_t page = 65536, blocks = 256;
#endif
    auto const frames = one_of<std::uint64_t>({8, 16, 32});
    p_.settings.page_size = page;
    p_.settings.cache_size = frames * page;
    p_.settings.staging_size = 4 << 20;
    p_.settings.prefetch_memory = 8 << 20;
    p_.settings.prefetch_size = one_in(2) ? 0 : prefetch_automatic;
    p_.settings.write_memory = one_in(2) ? 0 : 65536;
    p_.initial_size = 2 * frames * page;
    if (!p_.tiles) p_.block_threads = 128;
    p_.actors.push_back({actor_kind::host, 0, 0});
    actor_filesystem_.push_back(0);
    open(0, 1, O_RDONLY);
    for (unsigned b = 0; b < blocks; ++b) {
      auto const a = add_actor(actor_kind::block, 1, 0);
      push({.what = call_kind::context, .actor = a, .filesystem = 1}, false);
      for (unsigned i = 0; i < 2; ++i)
        push({.what = call_kind::gather,
              .actor = a,
              .filesystem = 1,
              .handle = 0,
              .offset = std::int64_t(below(100)),
              .count = 256,
              .stride = std::uint32_t(p_.initial_size / 256 - 1)});
    }
    return std::move(p_);
  }

  void choose_kind() {
    appends_ = one_in(4);
    truncates_ = !appends_ && one_in(3);
    once_ = one_in(4);
    ages_ = one_in(5);
    reads_only_ = one_in(16);
    gathers_ = one_in(3) || reads_only_;
    outsider_ = ages_ || one_in(2);
    p_.process = outsider_ && one_in(4);
    p_.filesystems = one_in(3) ? 2 : 1;
    chained_ = one_of<std::uint64_t>({0, 30, 70, 100});
    if (one_in(6)) {
      p_.fail_from = std::uint32_t(below(4));
      p_.fail_until = p_.fail_from + 1 + std::uint32_t(below(6));
      p_.settings.write_memory = 65536;  // no gwrite waits for a buffer that cannot be written
      p_.settings.cache_size = 64 * p_.settings.page_size;
    }
    for (unsigned i = 0; i < 4; ++i) {
      auto const page = p_.settings.page_size;
      anchors_.push_back(one_in(2) ? below(6) * page : below(p_.initial_size + 2 * page));
    }
    anchors_.push_back(p_.initial_size);
  }

  std::uint32_t add_actor(actor_kind kind, unsigned filesystem, unsigned kernel = 0) {
    p_.actors.push_back({kind, 1, kernel});
    actor_filesystem_.push_back(filesystem);
    return std::uint32_t(p_.actors.size() - 1);
  }

  void make_actors() {
    p_.actors.push_back({actor_kind::host, 0, 0});
    actor_filesystem_.push_back(0);
    unsigned kernel = 0;
    for (unsigned fs = 1; fs <= p_.filesystems; ++fs) {
      auto const kernels = fs == 1 && one_in(3) ? 2u : 1u;
      for (unsigned k = 0; k < kernels; ++k, ++kernel) {
        auto const blocks = 1 + below(fs == 1 ? 3 : 2);
        for (unsigned b = 0; b < blocks; ++b) {
          auto const a = add_actor(actor_kind::block, fs, kernel);
          push({.what = call_kind::context, .actor = a, .filesystem = fs}, false);
        }
      }
      if (one_in(2)) add_actor(actor_kind::host, fs);
    }
    if (outsider_) add_actor(actor_kind::outsider, 0);
  }

  void open_shared() {
    for (unsigned fs = 1; fs <= p_.filesystems; ++fs)
      if (one_in(3)) open(0, fs, one_in(3) || reads_only_ ? O_RDONLY : O_RDWR);
  }

  std::uint32_t pick_actor() { return 1 + std::uint32_t(below(p_.actors.size() - 1)); }

  void push(call c, bool may_wait = true) {
    auto const n = p_.calls.size();
    if (may_wait && n != 0 && below(100) < chained_) {
      // Mostly for the call before, of whatever actor.
      auto const on = one_in(5) ? n - 1 - below(std::min<std::size_t>(n, 4)) : n - 1;
      if (p_.calls[on].actor != c.actor && p_.actors[c.actor].phase != 0)
        c.after = std::uint32_t(on + 1);
    }
    p_.calls.push_back(c);
  }

  void open(std::uint32_t actor, std::uint32_t fs, int flags) {
    push({.what = call_kind::open,
          .actor = actor,
          .filesystem = fs,
          .handle = next_handle_,
          .flags = flags});
    handles_.push_back({next_handle_++, fs, actor, flags, actor == 0});
  }

  void close(std::size_t i) {
    auto const h = handles_[i];
    push({.what = call_kind::close,
          .actor = h.actor,
          .filesystem = h.filesystem,
          .handle = h.number});
    handles_.erase(handles_.begin() + std::ptrdiff_t(i));
  }

  int random_flags(std::uint32_t fs) {
    if (reads_only_ || one_in(3)) return O_RDONLY;
    if (once_ && one_in(3)) return O_WRONLY | O_GWRONCE;
    if (appends_ && fs == 1 && one_in(2)) return (one_in(2) ? O_RDWR : O_WRONLY) | O_APPEND;
    int const access = one_in(4) ? O_WRONLY : O_RDWR;
    return truncates_ && one_in(3) ? access | O_TRUNC : access;
  }

  /// All close the file, then somebody opens it and reads: what close-to-open is about.
  void reopen() {
    auto const kept = chained_;
    chained_ = 100;
    auto const place = some_place();
    auto const fs = 1 + std::uint32_t(below(p_.filesystems));
    if (outsider_ && !one_in(3)) change_outside(place);
    if (ages_) age();
    for (std::size_t i = handles_.size(); i-- > 0;)
      if (handles_[i].filesystem == fs && !handles_[i].shared) close(i);
    if (ages_ && one_in(2)) age();
    auto const reader = some_block(fs);
    open(reader, fs, one_in(3) && !reads_only_ ? O_RDWR : O_RDONLY);
    read_or_gather(reader, handles_.back(), place);
    if (one_in(2)) close(handles_.size() - 1);
    chained_ = kept;
  }

  std::uint32_t some_block(std::uint32_t fs) {
    for (;;) {
      auto const a = pick_actor();
      if (actor_filesystem_[a] == fs && p_.actors[a].kind == actor_kind::block) return a;
    }
  }

  void age() {
    if (++aged_ > 3) return;
    push({.what = call_kind::age, .actor = std::uint32_t(p_.actors.size() - 1)});
  }

  std::uint64_t some_place() {
    auto const at = anchors_[below(anchors_.size())];
    return at + below(20) - std::min<std::uint64_t>(at, below(40));
  }
  std::uint64_t some_count() {
    auto const page = p_.settings.page_size;
    return 1 + (one_in(8) ? below(3 * page) : one_in(3) ? below(page) : below(40));
  }

  void change_outside(std::uint64_t place) {
    auto const a = std::uint32_t(p_.actors.size() - 1);
    if (truncates_ && one_in(4))
      push({.what = call_kind::truncate, .actor = a, .offset = std::int64_t(place)});
    else
      write(a, 0, -1, 0, place);
  }

  void write(std::uint32_t actor, std::uint32_t fs, std::int32_t handle, int flags,
             std::uint64_t place) {
    auto count = some_count();
    bool const appends = (flags & O_APPEND) != 0 && p_.actors[actor].kind == actor_kind::block;
    // The host cannot append.
    if ((flags & O_APPEND) != 0 && p_.actors[actor].kind == actor_kind::host) return;
    auto& tag = appends ? next_append_ : next_tag_;
    if (tag == (appends ? first_placed_tag : tags) || reads_only_) return;
    if (appends) {
      count = 1 + count % 100;
      place = 0;
    } else if (appends_) {  // appends alone make the file longer
      if (place >= p_.initial_size) return;
      count = std::min(count, p_.initial_size - place);
    }
    push({.what = call_kind::write,
          .actor = actor,
          .filesystem = fs,
          .handle = handle,
          .offset = std::int64_t(place),
          .count = count,
          .tag = tag++});
  }

  void read_or_gather(std::uint32_t actor, open_handle const& h, std::uint64_t place) {
    if (gathers_ && one_in(2)) {
      auto const count = std::uint64_t(1) << (2 + below(reads_only_ ? 10 : 8));
      push({.what = call_kind::gather,
            .actor = actor,
            .filesystem = h.filesystem,
            .handle = h.number,
            .offset = std::int64_t(place),
            .count = count});
    } else {
      push({.what = call_kind::read,
            .actor = actor,
            .filesystem = h.filesystem,
            .handle = h.number,
            .offset = std::int64_t(place),
            .count = some_count()});
    }
  }

  void add_call(std::uint32_t actor) {
    if (p_.actors[actor].kind == actor_kind::outsider) return add_outside(actor);
    auto const fs = actor_filesystem_[actor];
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < handles_.size(); ++i)
      if (handles_[i].filesystem == fs && (handles_[i].actor == actor || handles_[i].shared))
        mine.push_back(i);
    if (mine.empty() || (mine.size() < 3 && one_in(6))) return open(actor, fs, random_flags(fs));
    auto const i = mine[below(mine.size())];
    auto const h = handles_[i];
    if (one_in(7) && !h.shared) return close(i);
    if (p_.actors[actor].kind == actor_kind::host)
      add_host(actor, h);
    else
      add_device(actor, h);
  }

  void add_outside(std::uint32_t actor) {
    if (one_in(2))
      change_outside(some_place());
    else if (one_in(5))
      push({.what = call_kind::size, .actor = actor});
    else
      push({.what = call_kind::read,
            .actor = actor,
            .offset = std::int64_t(some_place()),
            .count = some_count()});
  }

  void add_host(std::uint32_t actor, open_handle const& h) {
    bool const writes = opens_for_writing(h.flags);
    call c{.what = call_kind::size, .actor = actor, .filesystem = h.filesystem, .handle = h.number};
    if (one_in(5)) c.what = call_kind::sync;
    if (one_in(12)) c.what = call_kind::sync_all, c.handle = -1;
    if (writes && one_in(2)) return write(actor, h.filesystem, h.number, h.flags, some_place());
    push(c);
  }

  void add_device(std::uint32_t actor, open_handle const& h) {
    bool const writes = opens_for_writing(h.flags);
    call c{
        .what = call_kind::context, .actor = actor, .filesystem = h.filesystem, .handle = h.number};
    if (one_in(12)) {
      c.handle = -1;
      return push(c);
    }
    if (one_in(10)) {
      c.what = call_kind::sync;
      return push(c);
    }
    if (one_in(8) && (h.flags & O_GWRONCE) == 0) {
      c.what = call_kind::size;
      return push(c);
    }
    if (writes && truncates_ && (h.flags & O_GWRONCE) == 0 && one_in(6)) {
      c.what = call_kind::truncate;
      c.offset = std::int64_t(some_place());
      return push(c);
    }
    bool const reads = (h.flags & O_ACCMODE) != O_WRONLY;
    if (writes && (!reads || one_in(2)))
      return write(actor, h.filesystem, h.number, h.flags, some_place());
    if (reads) read_or_gather(actor, h, some_place());
  }

  program p_;
  std::mt19937_64 random_;
  bool appends_ = false, truncates_ = false, once_ = false, ages_ = false, gathers_ = false,
       outsider_ = false, reads_only_ = false;
  std::uint64_t chained_ = 0;  ///< percent of the calls that wait for another one
  std::vector<std::uint64_t> anchors_;
  std::vector<unsigned> actor_filesystem_;
  std::vector<open_handle> handles_;
  std::int32_t next_handle_ = 0;
  std::uint32_t next_tag_ = initial_tag + 1, next_append_ = 1;
  unsigned aged_ = 0;
};

}  // namespace

program generate(std::uint64_t seed) {
  auto p = generator(seed).make();
  return test::thread_sanitizer ? without_overlaps(p) : p;
}

}  // namespace gpufs::history
