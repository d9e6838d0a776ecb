#include <test/crash/crash_disk.hpp>
#include <test/crash/log_format.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>

namespace gpufs::test {

namespace {

constexpr std::uint64_t sector = 512;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

bool kept(loss const& lost, std::uint64_t change, std::uint64_t part) {
  if (lost.what != loss::kind::some) return lost.what == loss::kind::none;
  // Mostly lost with one seed, mostly kept with another.
  return mixed(mixed(lost.seed + change) + part) % 8 < 1 + mixed(lost.seed) % 7;
}

void put(crash_disk::bytes& to, logged_change const& c, std::uint64_t from, std::uint64_t count) {
  if (to.size() < c.offset + from + count) to.resize(c.offset + from + count);
  std::memcpy(to.data() + c.offset + from, c.data.data() + from, count);
}

}  // namespace

crash_disk::crash_disk(std::vector<logged_change> log) : log_(std::move(log)) {
  std::sort(log_.begin(), log_.end(),
            [](auto const& a, auto const& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < log_.size(); ++i) {
    times_.push_back(log_[i].begin);
    if (log_[i].end != no_time) times_.push_back(log_[i].end);
    bool const syncs = log_[i].what == change::sync || log_[i].what == change::sync_all;
    if (syncs && log_[i].result == 0) syncs_.push_back(i);
  }
  std::sort(times_.begin(), times_.end());
}

bool crash_disk::survives(std::size_t i, std::uint64_t synced, std::uint64_t now) const {
  return std::any_of(syncs_.begin(), syncs_.end(), [&](std::size_t s) {
    auto const& sync = log_[s];
    return (sync.what == change::sync_all || sync.inode == synced) && sync.begin > log_[i].end &&
           sync.end < now;
  });
}

crash_disk::bytes crash_disk::image(std::uint64_t inode, bytes file, std::size_t moment,
                                    loss const& lost) const {
  auto const now = end_of(moment);
  for (std::size_t i = 0; i < log_.size() && log_[i].begin < now; ++i) {
    auto const& c = log_[i];
    if (c.inode != inode || (c.what != change::bytes && c.what != change::size)) continue;
    if (c.end < now && c.result < 0) continue;
    bool const durable = survives(i, inode, now);
    if (c.what == change::size) {
      if (durable || kept(lost, i, 0)) file.resize(c.offset);
      continue;
    }
    auto const count = c.end < now ? std::uint64_t(c.result) : c.data.size();
    for (std::uint64_t from = 0; from < count;) {
      auto const at = c.offset + from;
      auto const length = std::min(count - from, sector - at % sector);
      if (durable || kept(lost, i, at / sector)) put(file, c, from, length);
      from += length;
    }
  }
  return file;
}

crash_disk::names crash_disk::named(names all, std::size_t moment, loss const& lost) const {
  auto const now = end_of(moment);
  for (std::size_t i = 0; i < log_.size() && log_[i].begin < now; ++i) {
    auto const& c = log_[i];
    bool const names_something =
        c.what == change::put_name || c.what == change::move_name || c.what == change::remove_name;
    if (!names_something || (c.end < now && c.result < 0)) continue;
    if (!survives(i, c.folder, now) && !kept(lost, i, 0)) continue;
    if (c.what != change::put_name) all.erase(c.path);
    if (c.what != change::remove_name) all[c.what == change::put_name ? c.path : c.to] = c.inode;
  }
  return all;
}

std::vector<logged_change> read_log(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<logged_change> log;
  std::map<std::uint64_t, std::size_t> places;
  std::uint64_t time = 0;
  auto const take = [&](auto& to, std::uint64_t bytes) {
    to.resize(bytes);
    in.read(reinterpret_cast<char*>(to.data()), std::streamsize(bytes));
  };
  for (log_record r; in.read(reinterpret_cast<char*>(&r), sizeof r);) {
    ++time;
    if (r.what == log_record::ends) {
      auto& c = log.at(places.at(r.number));
      c.end = time;
      c.result = r.result;
      continue;
    }
    logged_change c;
    c.what = change(r.what);
    c.inode = r.inode, c.folder = r.folder, c.offset = r.offset;
    take(c.path, r.path_bytes), take(c.to, r.to_bytes), take(c.data, r.data_bytes);
    c.begin = time;
    places[r.number] = log.size();
    log.push_back(std::move(c));
    if (!in) throw std::runtime_error(path + ": ends within a record");
  }
  return log;
}

}  // namespace gpufs::test
