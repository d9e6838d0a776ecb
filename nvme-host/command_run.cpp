#include <host-daemon/base/idle_policy.hpp>

#include <nvme-host/command_run.hpp>

#include <cerrno>
#include <optional>

namespace gpufs::nvme_host {

// Enters the drives whose bits are set.
int command_run::enter(std::uint64_t members) {
  for (std::size_t i = 0; i < drives_.size(); ++i) {
    if ((members >> i & 1) == 0) continue;
    if (int const error = drives_[i]->enter(patience_.silence); error != 0) {
      failed_.member = static_cast<std::uint32_t>(i);
      leave(members & ((std::uint64_t{1} << i) - 1));
      return error;
    }
  }
  return 0;
}

void command_run::leave(std::uint64_t members) {
  for (std::size_t i = drives_.size(); i-- > 0;)
    if ((members >> i & 1) != 0) drives_[i]->leave();
}

// Waits for a slot of `on`. False: the time is over, or a command has failed. The time begins once
// no command of this run is under way, as each has a time of its own.
bool command_run::take_slot(drive& on, drive::ticket& out) {
  daemon::idle_policy idle;
  std::optional<io_clock::time_point> begin;
  while (error_ == 0) {
    if (on.try_slot(out)) return true;
    if (first_ != next_) {
      end_first();
      continue;
    }
    if (!begin) begin = io_clock::now();
    if (on.is_over(*begin, patience_.longest)) {
      error_ = -ETIMEDOUT;
      return false;
    }
    if (auto const rest = idle.next(); rest.count() > 0) daemon::idle_policy::sleep(rest);
  }
  return false;
}

void command_run::push(pending const& next) { under_way_[next_++ % most_under_way] = next; }

void command_run::end_all() {
  while (first_ != next_) end_first();
}

// Ends the oldest command. Commands behind one that failed are awaited, and their results dropped.
void command_run::end_first() {
  pending& first = under_way_[first_++ % most_under_way];
  int const error = first.on->wait(first.ticket, patience_);
  if (error == 0 && error_ == 0 && reads_) (*move_)(*first.command, drive::piece(first.ticket));
  if (!first.ticket.is_given_up) first.on->release(first.ticket);
  if (error == 0 || error_ != 0) return;
  error_ = error;
  if (first.command != nullptr) failed_ = {first.command->at, first.command->member};
}

int command_run::transfer(nvme::direction to, std::span<block_command const> commands,
                          mover const& move, failure& failed) {
  std::uint64_t members = 0;
  for (block_command const& each : commands) members |= std::uint64_t{1} << each.member;
  failed_.at = commands.front().at;
  if (int const error = enter(members); error != 0) {
    failed = failed_;
    return error;
  }
  move_ = &move;
  reads_ = to == nvme::direction::read;
  for (block_command const& each : commands) {
    if (next_ - first_ == most_under_way) end_first();
    drive& on = *drives_[each.member];
    pending next{&each, &on, {}};
    if (error_ == 0) failed_ = {each.at, each.member};
    if (!take_slot(on, next.ticket)) break;
    if (!reads_) move(each, drive::piece(next.ticket));
    on.send(next.ticket, to, each.range);
    push(next);
  }
  end_all();
  leave(members);
  failed = failed_;
  return error_;
}

int command_run::flush() {
  std::uint64_t const members = ~std::uint64_t{0};
  if (int const error = enter(members); error != 0) return error;
  for (auto const& each : drives_) {
    if (next_ - first_ == most_under_way) end_first();
    pending next{nullptr, each.get(), {}};
    if (!take_slot(*each, next.ticket)) break;
    each->send_flush(next.ticket);
    push(next);
  }
  end_all();
  leave(members);
  return error_;
}

}  // namespace gpufs::nvme_host
