// Launches that have a name: what they touch is found out in managed memory, and used elsewhere.
#include <gpufs/mapping/address_space.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// An object of a call, and what the call declares of it.
struct address_space::declared_object {
  object* which;
  std::uint64_t number;         ///< of its place among all of the call
  std::uint64_t offset, bytes;  ///< of the object
  std::vector<byte_run> runs = {};
};

// In the order in which the call declares them first: those in managed memory, or the others. Needs
// the mutex.
std::vector<address_space::declared_object> address_space::declared(parts_of_call const& parts,
                                                                    bool is_managed) {
  std::vector<declared_object> all;
  for (auto const& p : *parts) {
    object* const o = object_at(p.offset);
    if (o == nullptr || o->id != p.id || p.blocks.first == p.blocks.end) continue;
    auto found = std::ranges::find(all, o, &declared_object::which);
    if (found == all.end()) found = all.insert(all.end(), {o, all.size(), o->offset, o->bytes});
    found->runs.push_back(o->bytes_in(p.blocks));
  }
  std::erase_if(all, [&](auto const& d) { return d.which->is_managed != is_managed; });
  return all;
}

void address_space::note_profile(std::string const& what) {
  auto const note = "mapping_profile: " + what;
  if (profile_.told.insert(note).second) notes_.push_back(note);
}

// The most that any name says counts, for the life of the object. So launches of two names do not
// move each other's chunks.
bool address_space::heat_chunks(object& o, block_runs const& units) {
  bool is_hotter = false;
  for (std::size_t i = 0; i < o.chunks.size(); ++i) {
    auto const chunk = o.bytes_of_chunk(i);
    std::uint64_t touched = 0;
    for (auto const& run :
         units.within({chunk.first / profile_unit, (chunk.end - 1) / profile_unit + 1}))
      touched += std::min(run.end * profile_unit, chunk.end) - run.first * profile_unit;
    double const heat = double(touched) / double(chunk.end - chunk.first);
    is_hotter = is_hotter || heat > o.chunks[i].heat;
    o.chunks[i].heat = std::max(o.chunks[i].heat, heat);
  }
  return is_hotter;
}

void address_space::expect_launch(parts_of_call const& parts, std::string const& name) noexcept
    try {
  if (in_forked_child()) return;
  quiet_lock lock(mutex_);
  if (profile_.keep == nullptr) return;
  if (!declared(parts, true).empty()) lock.without([this] { wait_for_calls(); });
  bool is_known = false, is_hotter = false;
  auto const placed = declared(parts, false);
  for (auto const& d : placed) {
    auto const* const units = profile_.known.find({name, d.number, d.bytes});
    is_known = is_known || units != nullptr;
    if (units != nullptr) is_hotter = heat_chunks(*d.which, *units) || is_hotter;
  }
  if (is_hotter) ++tiers_.changes;
  if (!is_known && !placed.empty())
    note_profile(fmt::format(
        "nothing is known of launches of {} that declare objects of these sizes; find it out with "
        "backing = managed",
        name));
} catch (std::exception const&) {  // no memory, or the device has failed, which begin() tells
}

bool address_space::watch_launch(parts_of_call const& parts) noexcept try {
  if (in_forked_child()) return false;
  std::vector<declared_object> all;
  {
    quiet_lock const lock(mutex_);
    if (profile_.keep == nullptr) return false;
    all = declared(parts, true);
  }
  try {
    for (auto const& d : all)
      for (auto const& run : d.runs) range_.managed_at(d.offset).watch(run.first, run.end);
    return !all.empty();
  } catch (device_error const& e) {
    quiet_lock const lock(mutex_);
    note_profile(e.what());
    return false;
  }
} catch (std::exception const&) {  // no memory: it is not watched
  return false;
}

void address_space::keep_touches(parts_of_call const& parts, std::string const& name) noexcept try {
  if (in_forked_child()) return;
  std::vector<declared_object> all;
  {
    quiet_lock const lock(mutex_);
    all = declared(parts, true);
  }
  launch_profile seen;
  std::string why;
  try {
    for (auto const& d : all)
      for (auto const& run : d.runs)
        for (auto const unit : range_.managed_at(d.offset).touched_units(run.first, run.end))
          seen.add({name, d.number, d.bytes}, {unit, unit + 1});
  } catch (device_error const& e) {
    why = e.what();
  }
  quiet_lock const lock(mutex_);
  if (profile_.known.add(seen)) why = profile_.keep(profile_.known);
  if (!why.empty()) note_profile(why);
} catch (std::exception const&) {  // no memory: it is not kept
}

}  // namespace gpufs::shared
