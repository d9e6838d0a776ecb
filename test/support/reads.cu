// The kernel behind read_batch.
#include <gpufs/gpufs.hpp>

#include <test/support/reads.hpp>

namespace gpufs::test {

namespace {

template <class Group>
__device__ void carry_out(fs_ref const& fs, Group const& group, read_op* ops, std::uint32_t count,
                          std::byte* output, std::uint32_t caller, std::uint32_t callers) {
  io_context<Group> io(fs, group);
  for (std::uint32_t i = caller; i < count; i += callers) {
    ssize_t const n = gread(io, ops[i].fd, output + ops[i].place, ops[i].count, ops[i].offset);
    if (group.thread_rank() == 0) ops[i].result = n;
  }
}

__global__ void read_by_block(fs_ref fs, read_op* ops, std::uint32_t count, std::byte* output) {
  carry_out(fs, cooperative_groups::this_thread_block(), ops, count, output, blockIdx.x, gridDim.x);
}

__global__ void read_by_tile(fs_ref fs, read_op* ops, std::uint32_t count, std::byte* output) {
  auto const tile =
      cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  std::uint32_t const per_block = blockDim.x / 32;
  carry_out(fs, tile, ops, count, output, blockIdx.x * per_block + threadIdx.x / 32,
            gridDim.x * per_block);
}

}  // namespace

void read_batch::start(fs_ref const& fs, unsigned blocks, unsigned threads, caller_kind who,
                       stream* on) {
  if (device_ops_.size() != ops_.size()) device_ops_ = buffer<read_op>(ops_.size());
  device_ops_.copy_from_host(ops_.data(), ops_.size());
  if (output_.size() != output_bytes_) output_ = buffer<std::byte>(output_bytes_);
  output_.fill_zero();
  launch(launch_options{.grid = blocks, .block = threads, .on = on},
         who == caller_kind::block ? read_by_block : read_by_tile, fs, device_ops_.data(),
         static_cast<std::uint32_t>(ops_.size()), output_.data());
}

void read_batch::run(fs_ref const& fs, unsigned blocks, unsigned threads, caller_kind who,
                     stream* on) {
  start(fs, blocks, threads, who, on);
  finish(on);
}

std::string read_batch::run_patiently(fs_ref const& fs, unsigned blocks, unsigned threads) {
  std::string wrong = "not run";
  for (int tries = 0; tries < 20 && !wrong.empty(); ++tries) {
    run(fs, blocks, threads);
    wrong = problems();
    // Time does not mend wrong bytes of a gread that returned what it should.
    for (std::size_t i = 0; i < done_.size(); ++i)
      if (done_[i].result == expected_[i].result && !problem(i).empty()) return wrong;
  }
  return wrong;
}

}  // namespace gpufs::test
