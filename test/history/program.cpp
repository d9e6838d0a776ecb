#include <gpufs/file.hpp>

#include <test/history/program.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpufs::history {

namespace {

constexpr std::uint64_t placed_tags = tags - first_placed_tag;

char const* name_of(call_kind what) {
  constexpr char const* names[] = {"context", "open",     "close",    "read", "gather", "write",
                                   "sync",    "sync_all", "truncate", "size", "age",    "crash"};
  return names[std::size_t(what)];
}

std::string flags_text(int flags) {
  std::string text = (flags & O_ACCMODE) == O_RDONLY   ? "O_RDONLY"
                     : (flags & O_ACCMODE) == O_WRONLY ? "O_WRONLY"
                                                       : "O_RDWR";
  if ((flags & O_GWRONCE) != 0) text = "O_GWRONCE";
  if ((flags & O_APPEND) != 0) text += "|O_APPEND";
  if ((flags & O_TRUNC) != 0) text += "|O_TRUNC";
  return text;
}

std::string actor_text(program const& p, std::uint32_t number) {
  auto const& a = p.actors[number];
  switch (a.kind) {
    case actor_kind::block: return fmt::format("kernel {} block {}", a.kernel, number);
    case actor_kind::host: return fmt::format("host thread {}", number);
    default: return fmt::format("outsider {}", number);
  }
}

std::string settings_text(program const& p) {
  auto const& c = p.settings;
  return fmt::format(
      "seed {}: file of {} bytes, {} filesystem(s), page_size {}, frames {}, write_memory {}, "
      "prefetch_size {}, io_path {}, policy {}, {} of {} threads{}{}{}\n",
      p.seed, p.initial_size, p.filesystems, c.page_size, c.cache_size / c.page_size,
      c.write_memory, c.prefetch_size == prefetch_automatic ? -1 : std::int64_t(c.prefetch_size),
      int(c.path), int(c.policy), p.tiles ? "tiles" : "blocks", p.block_threads,
      p.process ? ", outsider is a process" : "", p.slow ? ", slow" : "",
      p.fails() ? fmt::format(", writes {} to {} of write-back fail", p.fail_from, p.fail_until)
                : "");
}

}  // namespace

std::byte value_of(std::uint32_t tag, std::uint64_t offset) {
  if (tag < first_placed_tag) return static_cast<std::byte>(tag);
  return static_cast<std::byte>(first_placed_tag +
                                (tag - first_placed_tag + offset * 7) % placed_tags);
}

std::uint32_t tag_of(std::byte value, std::uint64_t offset) {
  auto const v = std::to_integer<std::uint32_t>(value);
  if (v < first_placed_tag) return v;
  return std::uint32_t(first_placed_tag +
                       (v - first_placed_tag + placed_tags - offset * 7 % placed_tags) %
                           placed_tags);
}

std::string to_text(program const& p, history const* h) {
  std::string text = settings_text(p);
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    auto const& c = p.calls[i];
    text += fmt::format("  #{:<3} ", i);
    if (c.filesystem != 0) text += fmt::format("fs{} ", c.filesystem);
    text += fmt::format("{}: {}", actor_text(p, c.actor), name_of(c.what));
    if (c.handle >= 0) text += fmt::format(" h{}", c.handle);
    if (c.what == call_kind::open) text += " " + flags_text(c.flags);
    if (c.what == call_kind::read || c.what == call_kind::gather || c.what == call_kind::write)
      text += fmt::format(" {}..{}", c.offset, c.offset + std::int64_t(c.count));
    if (c.stride != 1) text += fmt::format(" stride {}", c.stride);
    if (c.what == call_kind::write) text += fmt::format(" tag {}", c.tag);
    if (c.what == call_kind::truncate) text += fmt::format(" to {}", c.offset);
    if (c.after != 0) text += fmt::format(" after #{}", c.after - 1);
    if (h != nullptr && i < h->size())
      text += fmt::format("  [{}, {}] = {}", (*h)[i].begin, (*h)[i].end, (*h)[i].result);
    text += '\n';
  }
  return text;
}

program with_end(program p) {
  unsigned last = 0;
  for (auto const& a : p.actors) last = std::max(last, a.phase);
  auto const closer = std::uint32_t(p.actors.size());
  p.actors.push_back({actor_kind::host, last + 1, 0});
  p.actors.push_back({actor_kind::outsider, last + 2, 0});
  std::int32_t handles = 0;
  std::vector<call> left;
  for (auto const& c : p.calls) {
    handles = std::max(handles, c.handle + 1);
    if (c.what == call_kind::open) left.push_back(c);
    if (c.what == call_kind::close)
      std::erase_if(left, [&](call const& o) { return o.handle == c.handle; });
  }
  auto const add = [&](call const& c) { p.calls.push_back(c); };
  for (auto const& o : left)
    add({.what = call_kind::close,
         .actor = closer,
         .filesystem = o.filesystem,
         .handle = o.handle});
  if (p.fails()) {  // no write fails any more
    int const handle = handles++;
    add({.what = call_kind::open,
         .actor = closer,
         .filesystem = 1,
         .handle = handle,
         .flags = O_RDWR});
    for (int i = 0; i < 2; ++i)  // the first may report what failed before
      add({.what = call_kind::sync, .actor = closer, .filesystem = 1, .handle = handle});
    add({.what = call_kind::close, .actor = closer, .filesystem = 1, .handle = handle});
  }
  std::uint64_t longest = p.initial_size;
  for (auto const& c : p.calls)
    longest += c.what == call_kind::write && c.tag < first_placed_tag ? c.count : 0;
  for (auto const& c : p.calls)
    longest = std::max(longest, std::uint64_t(c.offset) + c.count * c.stride);
  longest += 16;
  add({.what = call_kind::read, .actor = closer + 1, .count = longest});
  for (unsigned fs = 1; fs <= p.filesystems; ++fs) {
    auto const reader = std::uint32_t(p.actors.size());
    p.actors.push_back({actor_kind::block, last + 3, fs});
    add({.what = call_kind::context, .actor = reader, .filesystem = fs});
    add({.what = call_kind::open, .actor = reader, .filesystem = fs, .handle = handles});
    add({.what = call_kind::read,
         .actor = reader,
         .filesystem = fs,
         .handle = handles,
         .count = longest});
    add({.what = call_kind::close, .actor = reader, .filesystem = fs, .handle = handles++});
  }
  return p;
}

}  // namespace gpufs::history
