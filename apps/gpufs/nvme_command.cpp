#include <gpufs/device.hpp>
#include <gpufs/settings.hpp>

#include <apps/common/nvme_queues.hpp>
#include <apps/common/program.hpp>
#include <apps/gpufs/nvme_command.hpp>
#include <apps/gpufs/nvme_controllers.hpp>
#include <apps/gpufs/nvme_selftest.hpp>

#include <fmt/format.h>
#include <nvme-host/control_plane.hpp>

namespace gpufs::apps {

namespace {

void print_identity(nvme_host::control_plane& plane, nvme_host::namespace_identity const& blocks) {
  auto const seen = plane.identify_controller();
  auto const cap = plane.capabilities();
  fmt::print("model             {}\n", seen.model);
  fmt::print("serial            {}\n", seen.serial);
  fmt::print("firmware          {}\n", seen.firmware);
  fmt::print("largest transfer  {}\n", seen.most_bytes == 0 ? "any" : format_size(seen.most_bytes));
  fmt::print("queue entries     {}\n", cap.most_entries());
  fmt::print("queue pairs       {}\n", plane.request_queues(65534));
  fmt::print("doorbell stride   {}\n", cap.doorbell_stride());
  fmt::print("namespace 1       {} blocks of {} bytes\n", blocks.blocks, blocks.lba_bytes);
}

int self_test(nvme_host::control_plane& plane, nvme_host::namespace_identity const& blocks,
              bool relay) {
  nvme_selftest_options o;
  o.relay = relay;
  auto const seen = run_nvme_selftest(plane, blocks, o);
  fmt::print("reads             {}, {:.0f} a second\n", seen.reads,
             static_cast<double>(seen.reads) / seen.seconds);
  fmt::print("doorbells         {}\n", seen.doorbells);
  if (seen.failed != 0)
    fmt::print("failed            {}, the first: {}\n", seen.failed, error_text(seen.first_error));
  if (seen.differing != 0) fmt::print("differing         {} pages\n", seen.differing);
  if (seen.strays != 0) fmt::print("strays            {} completions of no command\n", seen.strays);
  if (!seen.end_refused) fmt::print("behind the end    a read was not refused\n");
  bool const good = seen.failed + seen.differing + seen.strays == 0 && seen.end_refused;
  fmt::print("self-test         {}\n", good ? "passed" : "FAILED");
  return good ? 0 : status_failed;
}

}  // namespace

int run_nvme(nvme_options const& o) {
  if (o.action != "identify" && o.action != "selftest")
    throw usage_error(fmt::format("{}: is no action, identify or selftest is", o.action));
  check_option("--threads", o.threads, 1, 64);
  nvme_spec const spec = parse_nvme_spec(o.spec);
  if (spec.kind == nvme_spec::kinds::vfio && o.threads_given)
    throw usage_error(fmt::format("--threads={}: is of software controllers, and {} is a drive",
                                  o.threads, o.spec));
  if (spec.kind == nvme_spec::kinds::vfio && !spec.relay && o.action == "selftest" &&
      current_device().kind != "emulated")
    throw usage_error(fmt::format(
        "{}: a GPU does not reach the drive's doorbells, name it relay:ADDRESS", o.spec));
  auto const link = open_controller(spec, static_cast<unsigned>(o.threads), kernel_memory(),
                                    o.action == "selftest");
  nvme_host::control_plane plane{*link, {.memory = kernel_memory()}};
  plane.bring_up();
  auto const blocks = plane.identify_namespace(1);
  int status = 0;
  if (o.action == "identify") {
    print_identity(plane, blocks);
  } else if (blocks.blocks * blocks.lba_bytes < 4096) {
    throw usage_error(fmt::format("{}: the self-test reads 4 KiB at a time, the namespace has {}",
                                  o.spec, format_size(blocks.blocks * blocks.lba_bytes)));
  } else {
    status = self_test(plane, blocks, spec.relay);
  }
  plane.shut_down();
  return status;
}

}  // namespace gpufs::apps
