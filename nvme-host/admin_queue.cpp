#include <nvme-host/admin_queue.hpp>
#include <nvme-host/errors.hpp>

#include <atomic>
#include <bit>
#include <cstring>
#include <string>
#include <thread>

namespace gpufs::nvme_host {

namespace reg = nvme::reg;

namespace {

constexpr unsigned log2 = std::countr_zero(admin_queue::entries);

}  // namespace

admin_queue::admin_queue(controller_link& link, memory_source const& source,
                         std::uint32_t doorbell_stride)
    : link_{link},
      stride_{doorbell_stride},
      sq_{link.memory(), source, entries * sizeof(nvme::sqe)},
      cq_{link.memory(), source, entries * sizeof(nvme::cqe)} {}

void admin_queue::install() {
  std::memset(sq_.data(), 0, sq_.bytes());
  std::memset(cq_.data(), 0, cq_.bytes());
  tail_ = head_ = 0;
  register_file const registers = link_.registers();
  registers.store(reg::aqa, (entries - 1) << 16 | (entries - 1));
  registers.store_two(reg::asq, sq_.bus());
  registers.store_two(reg::acq, cq_.bus());
}

bool admin_queue::take(nvme::cqe& out) {
  auto* const words = reinterpret_cast<std::uint32_t*>(cq_.data() + std::size_t{head_ % entries} *
                                                                        sizeof(nvme::cqe));
  // Pairs with the controller's release: it stores word 3 last.
  out.dw[3] = std::atomic_ref<std::uint32_t>{words[3]}.load(std::memory_order_acquire);
  if (nvme::phase_of(out.dw[3]) != nvme::phase_at(head_, log2)) return false;
  for (unsigned i = 0; i < 3; ++i)
    out.dw[i] = std::atomic_ref<std::uint32_t>{words[i]}.load(std::memory_order_relaxed);
  ++head_;
  link_.registers().store(nvme::cq_doorbell(0, stride_), head_ % entries);
  return true;
}

nvme::cqe admin_queue::call(nvme::sqe const& asked, std::chrono::milliseconds longest) {
  nvme::sqe command = asked;
  ++cid_;
  command.dw[0] = (command.dw[0] & 0xffff) | std::uint32_t{cid_} << 16;
  std::memcpy(sq_.data() + std::size_t{tail_} * sizeof command, &command, sizeof command);
  tail_ = (tail_ + 1) % entries;
  register_file const registers = link_.registers();
  registers.store(nvme::sq_doorbell(0, stride_), tail_);
  auto const end = std::chrono::steady_clock::now() + longest;
  for (;;) {
    nvme::cqe answer{};
    // Answers to commands that were given up are dropped.
    while (take(answer))
      if (nvme::cid_of(answer) == cid_) return answer;
    std::uint32_t const state = registers.load(reg::csts);
    if (state == reg::gone)
      throw controller_error{"nvme: the controller's registers read as all ones: it has left"};
    if ((state & reg::csts_fatal) != 0)
      throw controller_error{"nvme: the controller reports a fatal error, reset it"};
    if (std::chrono::steady_clock::now() > end)
      throw controller_error{"nvme: no answer to admin command " +
                             std::to_string(nvme::opcode_of(command)) + " within " +
                             std::to_string(longest.count()) + " ms, reset the controller"};
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
}

void admin_queue::leak() noexcept {
  sq_.leak();
  cq_.leak();
}

}  // namespace gpufs::nvme_host
