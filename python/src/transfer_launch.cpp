// The start of a transfer: its memory, its kernels, and what these use of mappings.
#include <gpufs/shared_call.hpp>

#include <python/src/gil.hpp>
#include <python/src/mapped.hpp>
#include <python/src/transfer.hpp>
#include <python/src/transfer_check.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace gpufs::python {

namespace {

constexpr std::uint64_t staging_bytes = 64ull << 20;

/// True if kernels reach the tensor. `in`: the mapping that it lies in, or null. All mappings are
/// memory of the device.
bool is_reached(tensor const& t, mapped const* in, int device) {
  return t.in_reach() || (in != nullptr && in->device() == device);
}

/// Bytes [first, first + bytes) of memory, as far as they lie in the mapping.
struct part_of {
  part_of(mapping const& m, void const* memory, std::uint64_t wanted)
      : first(std::uint64_t(static_cast<std::byte const*>(memory) -
                            static_cast<std::byte const*>(m.data()))),
        bytes(std::min(wanted, m.size() - first)) {}
  std::uint64_t first, bytes;
};

// CUDA takes an address in a mapping for the GPU's side, whichever side has the newest bytes. An
// access of the CPU faults, and finds these. So bytes of mappings are copied by the CPU.
template <class T>
void copy_in(buffer<T>& to, T const* from, std::uint64_t count, bool is_mapped) {
  if (!is_mapped) return to.copy_from_host(from, count);
  std::vector<T> const newest(from, from + count);
  to.copy_from_host(newest.data(), count);
}
template <class T>
void copy_out(buffer<T> const& from, T* to, std::uint64_t count, bool is_mapped) {
  if (!is_mapped) return from.copy_to_host(to, count);
  std::vector<T> moved(count);
  from.copy_to_host(moved.data(), count);
  std::ranges::copy(moved, to);
}

}  // namespace

std::shared_ptr<transfer> transfer::start(std::shared_ptr<core> const& of,
                                          transfer_request const& request, tensor offsets,
                                          tensor data, nanobind::object stream) {
  std::shared_ptr<transfer> const t(
      new transfer(of, request, std::move(offsets), std::move(data), std::move(stream)));
  t->use_.emplace(*of, request.fd);
  device_scope const scope(of->device());
  // Nobody else has it, so this waits for no one. Calls of close() find it from now on, and wait
  // here until it has been launched, or refused.
  std::lock_guard const lock(t->mutex_);
  of->add(t);
  t->check();
  if (t->count_ == 0) {
    t->give_back();
    return t;
  }
  t->data_in_ = mapped::at(t->data_->data());
  t->offsets_in_ = mapped::at(t->offsets_->data());
  t->offsets_reached_ = is_reached(*t->offsets_, t->offsets_in_.get(), of->device());
  t->data_reached_ = !request.staged &&
                     (host_is_in_reach || is_reached(*t->data_, t->data_in_.get(), of->device()));
  t->use_mappings([&] {
    t->take_memory(!t->data_reached_);
    if (t->data_reached_) t->launch_part(0, t->count_, t->data_->data());
  });
  if (!t->data_reached_) t->move_staged();
  return t;
}

// The caller holds the GIL, which is given away meanwhile: memory of mappings is touched, a launch
// may read their files, and both wait. No mapping is closed before `act` is behind it.
template <class Act>
void transfer::use_mappings(Act const& act) {
  std::optional<mapped::counted_use> data_use, offsets_use;
  if (data_in_ != nullptr) data_use.emplace(*data_in_);
  if (offsets_in_ != nullptr) offsets_use.emplace(*offsets_in_);
  without_gil const release;
  act();
  data_use.reset();  // here: the GIL may not come any more
  offsets_use.reset();
}

// Within use_mappings(): it allocates, and touches memory that may be a mapping's.
void transfer::take_memory(bool staged) {
  workspace_ = core_->take_workspace();
  workspace_->reserve(
      offsets_reached_ ? 0 : count_,
      !staged ? 0 : std::max(request_.size, std::min(staging_bytes, data_->bytes())));
  device_offsets_ = numbers_of(*offsets_);
  if (!offsets_reached_) {
    copy_in(workspace_->offsets, device_offsets_, count_, offsets_in_ != nullptr);
    device_offsets_ = workspace_->offsets.data();
  }
#if !defined(GPUFS_EMULATED)
  // What others left in GPU memory is ordered by the stream, also if it is the default one.
  if (request_.stream.has_value() || !staged || offsets_reached_)
    on_.emplace(stream::of(reinterpret_cast<CUstream_st*>(request_.stream.value_or(0))));
#endif
}

// Within use_mappings().
void transfer::launch_part(std::uint64_t first, std::uint64_t count, std::byte* data) {
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
  running_->launched(w.ended);
}

// A launch that declares nothing would use all mappings for writing: missing bytes of their files
// would be read, and the launch would fail with their errors. Between the declaration and its end
// this thread waits for no one. What the kernel does not touch is not declared.
void transfer::launch_declared(stream& on, record_job const& job) {
  shared_call call(&on);
  bool const uses_data = data_in_ != nullptr && data_reached_;
  bool const uses_offsets = offsets_in_ != nullptr && offsets_reached_;
  if (uses_data) {
    mapping const& m = data_in_->used_object();
    part_of const p(m, data_->data(), data_->bytes());
    if (request_.writes)
      call.reads(m, p.first, p.bytes);
    else
      call.writes(m, p.first, p.bytes);
  }
  if (uses_offsets) {
    mapping const& m = offsets_in_->used_object();
    part_of const p(m, offsets_->data(), offsets_->bytes());
    call.reads(m, p.first, p.bytes);
  }
  if (uses_data || uses_offsets) detail::release_or_throw(call);
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
    use_mappings([&] {
      if (request_.writes) copy_in(workspace_->staging, part, bytes, data_in_ != nullptr);
      launch_part(first, count, staging);
    });
    await(true);
    if (!device_failure_.empty()) throw device_error(device_failure_);
    throw_if_stopped();
    if (failure_ != ~std::uint64_t{0}) {
      failure_ += failure_of(first, 0);
      break;
    }
    if (!request_.writes)
      use_mappings([&] { copy_out(workspace_->staging, part, bytes, data_in_ != nullptr); });
  }
  give_back();
}

}  // namespace gpufs::python
