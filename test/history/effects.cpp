#include <gpufs/file.hpp>

#include <test/history/effects.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace gpufs::history {

namespace {

bool publishes(call_kind what) {
  return what == call_kind::sync || what == call_kind::sync_all || what == call_kind::truncate;
}

}  // namespace

effect_list::effect_list(program const& p, history const& h) : p_(p), h_(h) {
  // First there was no file, then the initial contents. Stamps of calls begin above these.
  effects_.push_back({.cut = 0, .begin = 0, .end = 0, .published = 0});
  effects_.push_back({.tag = initial_tag,
                      .last = p.initial_size,
                      .extends = p.initial_size,
                      .begin = 1,
                      .end = 1,
                      .published = 1});
  find_opens();
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    auto const what = p.calls[i].what;
    if (what == call_kind::write || what == call_kind::truncate) add_write(i);
    if (what == call_kind::open) add_open(i);
  }
  for (auto& e : effects_) {
    publish(e);
    make_durable(e);
  }
  place_appends();
}

int effect_list::flags_of(call const& c) const {
  for (auto const& o : opens_)
    if (p_.calls[o.call].handle == c.handle) return o.flags;
  return 0;
}

void effect_list::find_opens() {
  for (std::size_t i = 0; i < p_.calls.size(); ++i) {
    auto const& c = p_.calls[i];
    if (c.what == call_kind::open && h_[i].result > 0)
      opens_.push_back({h_[i].begin, never, c.filesystem, c.flags, i, false});
    if (c.what != call_kind::close) continue;
    for (auto& o : opens_) {
      if (p_.calls[o.call].handle != c.handle) continue;
      o.end = h_[i].end;
      o.clean = h_[i].result == 0;
    }
  }
}

void effect_list::add_write(std::size_t i) {
  auto const& c = p_.calls[i];
  effect e{
      .call = i, .filesystem = c.filesystem, .tag = c.tag, .begin = h_[i].begin, .end = h_[i].end};
  bool const kernel = p_.actors[c.actor].kind == actor_kind::block;
  e.kind = c.filesystem == 0                ? effect_kind::outside
           : c.what == call_kind::truncate  ? effect_kind::truncate
           : !kernel                        ? effect_kind::host
           : (flags_of(c) & O_GWRONCE) != 0 ? effect_kind::once
                                            : effect_kind::gwrite;
  if (c.what == call_kind::truncate) {
    e.certain = h_[i].result == 0;
    e.cut = e.extends = std::uint64_t(c.offset);
    effects_.push_back(e);
    return;
  }
  auto const done = std::uint64_t(std::max<std::int64_t>(h_[i].result, 0));
  e.first = std::uint64_t(c.offset);
  e.last = e.extends = e.first + std::min(done, c.count);
  if (done > 0) effects_.push_back(e);
  if (done >= c.count) return;
  e.first = e.last;  // what may have been written in spite of the error
  e.last = e.extends = std::uint64_t(c.offset) + c.count;
  e.certain = false;
  effects_.push_back(e);
}

// O_TRUNC acts if the filesystem has no descriptor of the file.
void effect_list::add_open(std::size_t i) {
  auto const& c = p_.calls[i];
  if ((c.flags & O_TRUNC) == 0) return;
  bool certain = h_[i].result > 0;
  for (auto const& o : opens_) {
    if (o.call == i || o.filesystem != c.filesystem) continue;
    auto const& opened = h_[o.call];
    bool closing = false;
    for (std::size_t k = 0; k < p_.calls.size() && !closing; ++k)
      closing = p_.calls[k].what == call_kind::close &&
                p_.calls[k].handle == p_.calls[o.call].handle && h_[k].begin <= h_[i].end;
    if (opened.end < h_[i].begin && !closing) return;  // open all the time
    if (o.begin <= h_[i].end && o.end >= h_[i].begin) certain = false;
  }
  effects_.push_back({.kind = effect_kind::emptied,
                      .call = i,
                      .filesystem = c.filesystem,
                      .cut = 0,
                      .begin = h_[i].begin,
                      .end = h_[i].end,
                      .certain = certain});
}

// The time at which all descriptors for writing that were open since the effect are closed, all
// without an error.
std::uint64_t effect_list::all_closed(effect const& e, bool once) const {
  std::uint64_t at = e.end;
  for (bool grown = true; grown;) {
    grown = false;
    for (auto const& o : opens_) {
      if (o.filesystem != e.filesystem || !opens_for_writing(o.flags)) continue;
      if (once && (o.flags & O_GWRONCE) == 0) continue;
      if (o.begin > at || o.end < at || (o.end == at && o.clean)) continue;
      if (!o.clean) return never;
      at = o.end;
      grown = true;
    }
  }
  return at == e.end ? never : at;
}

void effect_list::publish(effect& e) const {
  if (e.call == no_call || !e.certain) return;
  if (e.kind != effect_kind::gwrite && e.kind != effect_kind::once) {
    e.published = e.end;
    return;
  }
  if (e.kind == effect_kind::once) e.closed = all_closed(e, true);
  e.published = std::min(e.closed, all_closed(e, false));
  for (std::size_t i = 0; i < p_.calls.size(); ++i) {
    auto const& c = p_.calls[i];
    if (publishes(c.what) && c.filesystem == e.filesystem && h_[i].result == 0 &&
        h_[i].begin > e.end)
      e.published = std::min(e.published, h_[i].end);
  }
}

// gfsync and fs.sync(fd) cover what this filesystem was asked for before, and what others have put
// into the file.
void effect_list::make_durable(effect& e) const {
  if (e.call == no_call || !e.certain) return;
  for (std::size_t i = 0; i < p_.calls.size(); ++i) {
    auto const& c = p_.calls[i];
    if (c.what != call_kind::sync || h_[i].result != 0) continue;
    if (h_[i].begin > (c.filesystem == e.filesystem ? e.end : e.published))
      e.durable = std::min(e.durable, h_[i].end);
  }
}

// No call tells where an append went: the reads do.
void effect_list::place_appends() {
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::size_t i = 0; i < p_.calls.size(); ++i) {
    auto const& bytes = h_[i].bytes;
    for (std::uint64_t k = 0; k < bytes.size(); ++k) {
      auto const tag = std::to_integer<std::uint32_t>(bytes[k]);
      if (tag == 0 || tag >= first_placed_tag) continue;
      auto const at = std::uint64_t(p_.calls[i].offset) + k * p_.calls[i].stride;
      auto const [found, fresh] = seen.try_emplace(tag, at, at);
      if (fresh) continue;
      found->second.first = std::min(found->second.first, at);
      found->second.second = std::max(found->second.second, at);
    }
  }
  for (auto& e : effects_) {
    if (e.tag == 0 || e.tag >= first_placed_tag) continue;
    auto const found = seen.find(e.tag);
    if (found != seen.end()) {
      place(e, found->second);
    } else if (e.certain) {
      problems_.push_back(fmt::format("append lost: #{}, nobody has seen a byte of it", e.call));
      e.certain = false;
    }
    if (found == seen.end()) {  // its range may be anywhere
      e.first = e.last = 0;
      e.extends = never;
    }
  }
  for (auto const& e : effects_)
    if (e.certain && e.tag != 0 && e.tag < first_placed_tag) check_place(e);
}

void effect_list::place(effect& e, std::pair<std::uint64_t, std::uint64_t> seen) {
  auto const count = p_.calls[e.call].count;
  e.first = seen.first;
  e.last = e.extends = e.first + count;
  if (seen.second >= e.last)
    problems_.push_back(fmt::format("append #{} of {} bytes was seen at byte {} and at byte {}",
                                    e.call, count, seen.first, seen.second));
  if (e.certain && seen.second + 1 < e.last)
    problems_.push_back(fmt::format("append #{}: of its {} bytes {} were ever seen", e.call, count,
                                    seen.second + 1 - seen.first));
  if (!e.certain) e.extends = never;
}

// An append begins at or behind the end that the file had when it began.
void effect_list::check_place(effect const& e) {
  for (auto const& x : effects_)
    if (&x != &e && x.certain && x.filesystem == e.filesystem && x.kind == effect_kind::gwrite &&
        x.end < e.begin && x.extends != never && x.extends > e.first)
      problems_.push_back(
          fmt::format("append #{} went to byte {}, though #{} had made the file {} bytes long",
                      e.call, e.first, x.call, x.extends));
  if (e.first < p_.initial_size)
    problems_.push_back(fmt::format("append #{} went to byte {} of a file of at least {}", e.call,
                                    e.first, p_.initial_size));
}

bool effect_list::before(effect const& x, effect const& y) const {
  if (x.published < y.begin) return true;
  if (x.filesystem != y.filesystem || x.end >= y.begin || x.call == no_call) return false;
  if (x.kind == effect_kind::once) return y.kind == effect_kind::once;
  // fs.write and gftruncate come after the kernels' dirty pages.
  return x.kind == effect_kind::gwrite &&
         (y.kind == effect_kind::gwrite || y.kind == effect_kind::host ||
          y.kind == effect_kind::truncate);
}

// Whether the actor has opened the file, or made a context, after `since` and before call `r`.
bool effect_list::looks_again(std::uint32_t actor, std::uint64_t since, std::size_t r) const {
  for (std::size_t i = 0; i < p_.calls.size(); ++i) {
    auto const& c = p_.calls[i];
    if (c.actor == actor && h_[i].begin > since && h_[i].end < h_[r].begin &&
        (c.what == call_kind::context || (c.what == call_kind::open && h_[i].result > 0)))
      return true;
  }
  return false;
}

// Whether no other descriptor of the filesystem was open for writing during an open.
bool effect_list::quiet(std::size_t open) const {
  for (auto const& o : opens_) {
    if (o.call == open || o.filesystem != p_.calls[open].filesystem || !opens_for_writing(o.flags))
      continue;
    if (o.begin <= h_[open].end && (!o.clean || o.end >= h_[open].begin)) return false;
  }
  return true;
}

// Whether an open has looked at the host file after x was there, and the caller of `r` knows.
bool effect_list::revalidated(effect const& x, std::size_t r) const {
  auto const& reader = p_.calls[r];
  for (auto const& o : opens_) {
    if (o.filesystem != reader.filesystem || o.begin <= x.published || !quiet(o.call)) continue;
    if (h_[o.call].end >= h_[r].begin) continue;
    if (p_.calls[o.call].actor == reader.actor || looks_again(reader.actor, h_[o.call].end, r))
      return true;
  }
  return false;
}

bool effect_list::must_see(effect const& x, std::size_t r) const {
  if (x.call == no_call) return true;
  if (!x.certain) return false;
  auto const& reader = p_.calls[r];
  auto const begin = h_[r].begin;
  if (reader.what == call_kind::crash) return x.durable < begin;
  if (reader.filesystem == 0) return x.published < begin;
  bool const own = x.filesystem == reader.filesystem;
  if (p_.actors[reader.actor].kind != actor_kind::block)  // fs.stat asks the host file
    return (own && x.kind != effect_kind::once ? x.end : x.published) < begin;
  if (!own) return revalidated(x, r);
  // Kernels go on with their pages while the host cannot write some of them.
  bool const behind_pages = x.kind == effect_kind::once || x.kind == effect_kind::host;
  if (behind_pages && p_.fails()) return false;
  switch (x.kind) {
    case effect_kind::gwrite:
    case effect_kind::truncate: return x.end < begin;
    case effect_kind::once: {
      for (std::size_t i = 0; i < p_.calls.size(); ++i)
        if (p_.calls[i].what == call_kind::open && p_.calls[i].actor == reader.actor &&
            h_[i].result > 0 && h_[i].begin > x.closed && h_[i].end < begin)
          return true;
      return false;
    }
    default:
      return (p_.calls[x.call].actor == reader.actor && x.end < begin) ||
             looks_again(reader.actor, x.end, r);
  }
}

}  // namespace gpufs::history
