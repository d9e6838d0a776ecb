// The start of a transfer: its memory, its kernels, and what these use of mappings.
#include <gpufs/shared_call.hpp>

#include <python/src/gil.hpp>
#include <python/src/mapped.hpp>
#include <python/src/transfer.hpp>
#include <python/src/transfer_check.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace gpufs::python {

namespace {

constexpr std::uint64_t staging_bytes = 64ull << 20;

/// Bytes [first, first + bytes) of memory, as far as they lie in the mapping.
struct part_of {
  part_of(mapping const& m, void const* memory, std::uint64_t wanted)
      : first(std::uint64_t(static_cast<std::byte const*>(memory) -
                            static_cast<std::byte const*>(m.data()))),
        bytes(std::min(wanted, m.size() - first)) {}
  std::uint64_t first, bytes;
};

}  // namespace

std::shared_ptr<transfer> transfer::start(std::shared_ptr<core> const& of,
                                          transfer_request const& request, tensor offsets,
                                          tensor data) {
  std::shared_ptr<transfer> const t(new transfer(of, request, std::move(offsets), std::move(data)));
  t->use_.emplace(*of);
  device_scope const scope(of->device());
  t->check();
  if (t->count_ == 0) {
    t->give_back();
    return t;
  }
  // Nobody else has it, so this waits for no one. Calls of close() find it from now on, and wait
  // here until it has been launched.
  std::lock_guard const lock(t->mutex_);
  of->add(t);
  bool const reached = t->data_->in_reach() || (host_is_in_reach && !t->data_->on_device());
  bool const staged = request.staged || !reached;
  t->data_in_ = mapped::at(t->data_->data());
  t->offsets_in_ = mapped::at(t->offsets_->data());
  {
    without_gil const release;
    t->take_memory(staged);
  }
  if (staged)
    t->move_staged();
  else
    t->launch_part(0, t->count_, t->data_->data());
  return t;
}

// Without the GIL: it allocates, and touches memory that may be a mapping's.
void transfer::take_memory(bool staged) {
  workspace_ = core_->take_workspace();
  workspace_->reserve(
      offsets_->in_reach() ? 0 : count_,
      !staged ? 0 : std::max(request_.size, std::min(staging_bytes, data_->bytes())));
  device_offsets_ = numbers_of(*offsets_);
  if (!offsets_->in_reach()) {
    workspace_->offsets.copy_from_host(device_offsets_, count_);
    device_offsets_ = workspace_->offsets.data();
  }
#if !defined(GPUFS_EMULATED)
  if (request_.stream.has_value() || !staged)
    on_.emplace(stream::of(reinterpret_cast<CUstream_st*>(request_.stream.value_or(0))));
#endif
}

// The caller holds the GIL, which is given away meanwhile: a launch may read files of mappings, and
// wait. No mapping is closed before the launch is behind it.
void transfer::launch_part(std::uint64_t first, std::uint64_t count, std::byte* data) {
  std::optional<mapped::counted_use> data_use, offsets_use;
  if (data_in_ != nullptr) data_use.emplace(*data_in_);
  if (offsets_in_ != nullptr) offsets_use.emplace(*offsets_in_);
  without_gil const release;
  constexpr std::uint64_t nothing_failed_nor_stops[] = {~std::uint64_t{0}, 0};
  workspace& w = *workspace_;
  w.state.copy_from_host(nothing_failed_nor_stops, 2);
  stream& on = on_.has_value() ? *on_ : w.own;
  record_job const job{.fs = (*use_)->ref(),
                       .fd = request_.fd,
                       .offsets = device_offsets_ + first,
                       .count = count,
                       .size = request_.size,
                       .data = data,
                       .failure = w.state.data(),
                       .stop = w.state.data() + 1};
  running_.emplace();
  launch_declared(on, job);
  ended_ = false;
  w.ended.record(on);
  data_use.reset();  // here: the GIL may not come any more
  offsets_use.reset();
}

// A launch that declares nothing would use all mappings for writing: missing bytes of their files
// would be read, and the launch would fail with their errors. Nobody touches them by the GIL that
// is held: between the declaration and its end this thread waits for no one.
void transfer::launch_declared(stream& on, record_job const& job) {
  shared_call call(&on);
  if (data_in_ != nullptr) {
    mapping const& m = data_in_->used_object();
    part_of const p(m, data_->data(), data_->bytes());
    if (request_.writes)
      call.reads(m, p.first, p.bytes);
    else
      call.writes(m, p.first, p.bytes);
  }
  if (offsets_in_ != nullptr) {
    mapping const& m = offsets_in_->used_object();
    part_of const p(m, offsets_->data(), offsets_->bytes());
    call.reads(m, p.first, p.bytes);
  }
  if (data_in_ != nullptr || offsets_in_ != nullptr) detail::release_or_throw(call);
  detail::declared_launch const declared(call);
  if (request_.writes)
    launch_scatter(on, job);
  else
    launch_gather(on, job, word_, (*use_)->settings().page_size);
}

void transfer::move_staged() {
  std::uint64_t const at_once = std::max<std::uint64_t>(1, staging_bytes / request_.size);
  std::byte* const staging = workspace_->staging.data();
  for (std::uint64_t first = 0; first < count_; first += at_once) {
    std::uint64_t const count = std::min(at_once, count_ - first);
    std::uint64_t const bytes = count * request_.size;
    std::byte* const part = data_->data() + first * request_.size;
    if (request_.writes) {
      without_gil const release;
      workspace_->staging.copy_from_host(part, bytes);
    }
    launch_part(first, count, staging);
    await(true);
    if (!device_failure_.empty()) throw device_error(device_failure_);
    throw_if_stopped();
    if (failure_ != ~std::uint64_t{0}) {
      failure_ += failure_of(first, 0);
      break;
    }
    if (!request_.writes) {
      without_gil const release;
      workspace_->staging.copy_to_host(part, bytes);
    }
  }
  give_back();
}

}  // namespace gpufs::python
