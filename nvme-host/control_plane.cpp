#include <nvme-host/control_plane.hpp>
#include <nvme-host/errors.hpp>

#include <bit>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace gpufs::nvme_host {

namespace reg = nvme::reg;
namespace status = nvme::status;
using nvme::admin_opcode;
using nvme::make_admin;

namespace {

std::string hex(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%03xh", value);
  return text;
}

/// Texts of identify are padded with spaces.
std::string text_at(std::byte const* page, std::size_t at, std::size_t bytes) {
  std::string text{reinterpret_cast<char const*>(page) + at, bytes};
  text.erase(text.find_last_not_of(std::string{" \0", 2}) + 1);
  return text;
}

template <class T>
T value_at(std::byte const* page, std::size_t at) {
  T value;
  std::memcpy(&value, page + at, sizeof value);
  return value;
}

constexpr std::uint32_t contiguous = 1;
constexpr std::uint32_t least_depth = 16;
constexpr std::uint32_t least_entries = 2 * least_depth;  // of a completion queue

}  // namespace

control_plane::control_plane(controller_link& link, control_options options)
    : link_{link},
      options_{std::move(options)},
      capabilities_{link.registers().load_two(reg::cap)} {
  if (failed() && link_.registers().load(reg::csts) == reg::gone)
    throw controller_error{
        "nvme: the controller's registers read as all ones: it is not there, or "
        "its memory space is disabled"};
  if (!capabilities_.nvm_commands())
    throw controller_error{"nvme: the controller lacks the NVM command set: is it a drive?"};
  if (capabilities_.smallest_page() > nvme::page_bytes)
    throw controller_error{"nvme: the controller cannot use pages of 4 KiB"};
  if (capabilities_.most_entries() < least_entries)
    throw controller_error{"nvme: the controller has queues of " +
                           std::to_string(capabilities_.most_entries()) + " entries, " +
                           std::to_string(least_entries) + " are needed"};
  admin_.emplace(link, options_.memory, capabilities_.doorbell_stride());
  page_ = dma_memory{link.memory(), options_.memory, nvme::identify::bytes};
}

control_plane::~control_plane() {
  if (!enabled_) return;
  try {
    shut_down();
  } catch (std::exception const&) {
    static_cast<void>(stop());
  }
}

bool control_plane::failed() const {
  std::uint32_t const state = link_.registers().load(reg::csts);
  return state == reg::gone || (state & reg::csts_fatal) != 0;
}

bool control_plane::wait_ready(bool ready) const {
  auto const end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds{capabilities_.ready_ms() + 500};
  for (;;) {
    std::uint32_t const state = link_.registers().load(reg::csts);
    if (state == reg::gone) return false;
    if (ready && (state & reg::csts_fatal) != 0) return false;
    if (((state & reg::csts_ready) != 0) == ready) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

void control_plane::bring_up() {
  if (!stop())
    throw controller_error{
        "nvme: the controller does not stop (CSTS.RDY stays 1 for CAP.TO); reset the device, or "
        "the machine"};
  admin_->install();
  link_.registers().store(reg::cc, reg::cc_enable | reg::cc_entry_sizes);
  enabled_ = true;
  if (!wait_ready(true))
    throw controller_error{
        "nvme: the controller does not start (CSTS.RDY stays 0 for CAP.TO); reset the device, "
        "or the machine"};
  up_ = true;
}

bool control_plane::stop() noexcept {
  up_ = enabled_ = false;
  if (admin_ == std::nullopt) return false;
  link_.registers().store(reg::cc, 0);
  if (is_late_ && link_.is_stopping()) return false;
  bool stopped = wait_ready(false);
  is_late_ = !stopped && link_.is_stopping();
  if (is_late_) return false;
  // The system calls may have returned just now: a controller that has left reads as ready.
  if (!stopped) stopped = (link_.registers().load(reg::csts) & reg::csts_ready) == 0;
  if (!stopped) {
    for (auto& [id, each] : pairs_) {
      each.sq.leak();
      each.cq.leak();
    }
    admin_->leak();
    page_.leak();
    admin_.reset();
  }
  retired_.merge(pairs_);  // asks for no memory
  return stopped;
}

void control_plane::shut_down() {
  check_up();
  while (!pairs_.empty()) delete_queue_pair(pairs_.begin()->first);
  register_file const registers = link_.registers();
  registers.store(reg::cc, reg::cc_enable | reg::cc_entry_sizes | reg::cc_shutdown_normal);
  auto const end = std::chrono::steady_clock::now() + options_.admin_timeout;
  for (;;) {
    std::uint32_t const state = registers.load(reg::csts);
    if (state == reg::gone) throw controller_error{"nvme: the controller has left"};
    if ((state & reg::csts_fatal) != 0)
      throw controller_error{
          "nvme: the controller failed as it shut down (CSTS.CFS), its cache may not be written"};
    if ((state & reg::csts_shutdown_mask) == reg::csts_shutdown_done) break;
    if (std::chrono::steady_clock::now() > end)
      throw controller_error{"nvme: the controller did not shut down in time"};
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
  if (!stop()) throw controller_error{"nvme: CSTS.RDY did not become 0 after shutdown"};
}

void control_plane::check_up() const {
  if (!up_) throw controller_error{"nvme: the controller is not up, call bring_up()"};
}

nvme::cqe control_plane::admin(nvme::sqe const& command) {
  check_up();
  return admin_->call(command, options_.admin_timeout);
}

void control_plane::expect(nvme::cqe const& answer, std::string const& what) const {
  std::uint16_t const code = nvme::status_of(answer);
  if (code != status::success) throw command_error{"nvme: " + what + ": status " + hex(code), code};
}

void control_plane::identify(nvme::identify_kind kind, std::uint32_t nsid) {
  expect(admin(make_admin(admin_opcode::identify, 0, nsid, {page_.bus(), 0},
                          static_cast<std::uint32_t>(kind))),
         nsid == 0 ? "identify" : "identify namespace " + std::to_string(nsid));
}

controller_identity control_plane::identify_controller() {
  identify(nvme::identify_kind::controller, 0);
  namespace at = nvme::identify;
  std::byte const* const page = page_.data();
  controller_identity seen;
  seen.model = text_at(page, at::model, at::model_bytes);
  seen.serial = text_at(page, at::serial, at::serial_bytes);
  seen.firmware = text_at(page, at::firmware, at::firmware_bytes);
  auto const shift = value_at<std::uint8_t>(page, at::mdts);
  if (shift != 0) seen.most_bytes = capabilities_.smallest_page() << shift;
  seen.namespaces = value_at<std::uint32_t>(page, at::namespaces);
  seen.write_cache = (value_at<std::uint8_t>(page, at::write_cache) & 1) != 0;
  seen.write_zeroes = (value_at<std::uint16_t>(page, at::commands) & at::zeroes_bit) != 0;
  return seen;
}

namespace_identity control_plane::identify_namespace(std::uint32_t nsid) {
  identify(nvme::identify_kind::name_space, nsid);
  namespace at = nvme::identify;
  std::byte const* const page = page_.data();
  std::string const name = "nvme: namespace " + std::to_string(nsid);
  namespace_identity seen;
  seen.blocks = value_at<std::uint64_t>(page, at::blocks);
  if (seen.blocks == 0) throw controller_error{name + " is not there, or has no blocks"};
  unsigned const index = value_at<std::uint8_t>(page, at::format_index) & 15;
  auto const format = value_at<std::uint32_t>(page, at::formats + 4 * index);
  unsigned const log2 = format >> 16 & 0xff;
  if ((format & 0xffff) != 0) throw controller_error{name + " has metadata, format it without"};
  if (log2 != 9 && log2 != 12)
    throw controller_error{name + " has blocks of 2^" + std::to_string(log2) +
                           " bytes, format it with 512 or 4096"};
  seen.lba_bytes = 1u << log2;
  return seen;
}

std::uint32_t control_plane::request_queues(std::uint32_t wanted) {
  if (wanted == 0 || wanted > 65534)
    throw controller_error{"nvme: " + std::to_string(wanted) +
                           " queue pairs, 1 to 65534 can be "
                           "asked for"};
  nvme::cqe const answer =
      admin(make_admin(admin_opcode::set_features, 0, 0, {}, nvme::feature_queue_count,
                       (wanted - 1) << 16 | (wanted - 1)));
  expect(answer, "number of queues");
  std::uint32_t const sq = (answer.dw[0] & 0xffff) + 1, cq = (answer.dw[0] >> 16) + 1;
  return std::min(wanted, std::min(sq, cq));
}

std::uint32_t control_plane::most_depth() const {
  return std::bit_floor(capabilities_.most_entries() / 2);
}

queue_pair_memory const& control_plane::create_queue_pair(std::uint16_t id, std::uint32_t depth,
                                                          memory_source const& memory) {
  std::string const name = "nvme: queue pair " + std::to_string(id);
  if (pairs_.contains(id)) throw controller_error{name + " exists"};
  if (!std::has_single_bit(depth) || depth < least_depth || depth > most_depth())
    throw controller_error{name + " with " + std::to_string(depth) +
                           " entries: a power of two from "
                           "16 to " +
                           std::to_string(most_depth()) + " is possible"};
  register_file const registers = link_.registers();
  std::uint32_t const stride = capabilities_.doorbell_stride();
  if (nvme::cq_doorbell(id, stride) + 4ull > registers.bytes())
    throw controller_error{name + ": the controller has no doorbells for it"};
  memory_source const& source = memory ? memory : options_.memory;
  auto const at =
      pairs_
          .try_emplace(id, pair{dma_memory{link_.memory(), source, depth * sizeof(nvme::sqe)},
                                dma_memory{link_.memory(), source, 2 * depth * sizeof(nvme::cqe)},
                                {}})
          .first;
  pair& made = at->second;
  made.view = {id,
               depth,
               reinterpret_cast<nvme::sqe*>(made.sq.data()),
               reinterpret_cast<nvme::cqe*>(made.cq.data()),
               registers.at(nvme::sq_doorbell(id, stride)),
               registers.at(nvme::cq_doorbell(id, stride))};
  // Without an answer the controller may have them: their memory then stays until stop().
  try {
    create_queues(made);
  } catch (command_error const&) {
    pairs_.erase(at);
    throw;
  }
  return made.view;
}

// Throws command_error if the controller has neither of the two.
void control_plane::create_queues(pair const& made) {
  std::uint32_t const id = made.view.id, depth = made.view.depth;
  expect(admin(make_admin(admin_opcode::create_cq, 0, 0, {made.cq.bus(), 0},
                          (2 * depth - 1) << 16 | id, contiguous)),
         "creation of completion queue " + std::to_string(id));
  nvme::cqe const answer = admin(make_admin(admin_opcode::create_sq, 0, 0, {made.sq.bus(), 0},
                                            (depth - 1) << 16 | id, id << 16 | contiguous));
  if (nvme::status_of(answer) == status::success) return;
  nvme::cqe const gone = admin(make_admin(admin_opcode::delete_cq, 0, 0, {}, id));
  std::string const what = "creation of submission queue " + std::to_string(id);
  if (nvme::status_of(gone) != status::success)
    throw controller_error{"nvme: " + what + ": status " + hex(nvme::status_of(answer)) +
                           ", and the completion queue stays: status " +
                           hex(nvme::status_of(gone))};
  expect(answer, what);
}

void control_plane::delete_queue_pair(std::uint16_t id) {
  auto const at = pairs_.find(id);
  std::string const name = std::to_string(id);
  if (at == pairs_.end()) throw controller_error{"nvme: queue pair " + name + " does not exist"};
  expect(admin(make_admin(admin_opcode::delete_sq, 0, 0, {}, id)),
         "deletion of submission queue " + name);
  expect(admin(make_admin(admin_opcode::delete_cq, 0, 0, {}, id)),
         "deletion of completion queue " + name);
  pairs_.erase(at);
}

}  // namespace gpufs::nvme_host
