#include <apps/bench/nvme_commands.hpp>
#include <apps/bench/nvme_controllers.hpp>
#include <apps/common/nvme_queues.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>
#include <nvme-controller/controller.hpp>

#include <stdexcept>
#include <utility>

namespace gpufs::apps {

bench_controllers::bench_controllers(controllers_options const& o)
    : answered_queues(o.timeout_ns), options_{o} {
  if (o.data_bytes != 0) {
    data_ = pinned_buffer<std::byte>((o.data_bytes + 4095) / 4096 * 4096);
    data_.fill_zero();
  }
  std::vector<std::vector<nvme::queue_pair_place>> each;
  for (std::uint32_t i = 0; i < o.controllers; ++i) {
    add_controller();
    each.push_back(make_queue_pairs(*planes_.back(), o.pairs, o.depth));
  }
  std::vector<nvme::queue_pair_place> all;
  for (std::uint32_t pair = 0; pair < o.pairs; ++pair)
    for (auto const& places : each) all.push_back(places[pair]);
  set_places(std::move(all));
}

// The memory of a controller that does not stop is leaked by its control plane.
bench_controllers::~bench_controllers() {
  for (auto const& plane : planes_) static_cast<void>(plane->stop());
}

void bench_controllers::add_controller() {
  nvme_controller::controller_options options{.namespaces = {options_.blocks},
                                              .threads = options_.threads};
  if (options_.model)
    options.model = std::make_shared<nvme_controller::drive_model>(*options_.model);
  links_.push_back(std::make_unique<nvme_host::software_link>(options, kernel_memory()));
  if (data_.size() != 0) links_.back()->memory().map(data_.data(), data_.size());
  planes_.push_back(std::make_unique<nvme_host::control_plane>(
      *links_.back(), nvme_host::control_options{.memory = kernel_memory()}));
  planes_.back()->bring_up();
  std::uint32_t const granted = planes_.back()->request_queues(options_.pairs);
  if (granted < options_.pairs)
    throw std::runtime_error(
        fmt::format("a controller grants {} queue pairs, not {}", granted, options_.pairs));
}

std::uint64_t bench_controllers::commands() const {
  std::uint64_t sum = 0;
  for (auto const& link : links_) sum += link->controller().counters().commands.load();
  return sum;
}

std::uint64_t bench_controllers::completions() const {
  std::uint64_t sum = 0;
  for (auto const& link : links_) sum += link->controller().counters().completions.load();
  return sum;
}

command_run checked_run(char const* what, answered_queues const& on, command_shape const& shape,
                        command_report const& report, double seconds) {
  std::uint64_t const sent = shape.commands(), counted = on.commands();
  if (report.error != 0)
    throw std::runtime_error(fmt::format("{}: {} of {} commands were answered, then: {}", what,
                                         report.answered, sent, error_text(report.error)));
  if (report.wrong != 0)
    throw std::runtime_error(fmt::format("{}: {} parts of blocks are wrong", what, report.wrong));
  if (report.answered != sent || counted != sent)
    throw std::runtime_error(
        fmt::format("{}: {} commands, {} were answered, the controllers counted {}", what, sent,
                    report.answered, counted));
  return {sent, seconds, report.doorbells, report.head_doorbells};
}

}  // namespace gpufs::apps
