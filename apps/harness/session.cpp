#include <apps/common/program.hpp>
#include <apps/harness/array_checksum.hpp>
#include <apps/harness/session.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace gpufs::apps {

namespace {

using steady = std::chrono::steady_clock;

double seconds_between(steady::time_point from, steady::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string compare_sums(data_file const& file, std::uint64_t got) {
  if (got == file.checksum) return {};
  return fmt::format(
      "what the device got of {} is not what was generated: checksum {:016x}, not {:016x}",
      file.file.path(), got, file.checksum);
}

}  // namespace

session::session(port_description const& what, problem const& which, std::string const& folder)
    : port_(what.make(which)), shapes_(port_->outputs()), reads_(port_->reads()) {
  auto const files = port_->files();
  if (!folder.empty() && std::ranges::none_of(files, &std::string::empty, &input_file::path))
    throw usage_error(fmt::format("--data={}: is of generated input, and --input={} is read",
                                  folder, which.input));
  data_ = std::make_unique<data_set>(files, origin_of(what, which), folder);
  for (auto const& f : files) inputs_.emplace_back((f.bytes + 15) / 16 * 16);
  for (auto const& s : shapes_) outputs_.emplace_back(s.bytes());
  port_->prepare();
}

std::uint64_t session::bytes_read() const { return bytes_read_by(*port_); }

std::uint64_t session::largest_file() const {
  std::uint64_t bytes = 0;
  for (auto const& f : data_->files()) bytes = std::max(bytes, f.file.size());
  return bytes;
}

void session::drop_from_page_cache() const {
  constexpr double most = 0.05;  // what other readers may have brought back
  for (auto const& f : data_->files()) {
    f.file.drop_from_page_cache();
    double const stays = f.file.cached_part().value_or(0);
    if (stays > most) {
      throw not_cold(fmt::format(
          "{} cannot be made cold: {:.0f} % of it stay in memory; files on a disk can (TMPDIR or "
          "the folder of the input files say where they are)",
          f.file.path(), 100 * stays));
    }
  }
}

void session::load_into_page_cache() const {
  for (auto const& f : data_->files()) f.file.load_into_page_cache(f.file.size());
}

void session::clear_outputs() {
  for (auto& o : outputs_) o.fill_zero();
}

device_arrays session::arrays(bool with_inputs) const {
  device_arrays a;
  if (with_inputs) {
    for (auto const& i : inputs_) a.inputs.push_back(i.data());
  }
  for (auto const& o : outputs_) a.outputs.push_back(o.data());
  return a;
}

run_times session::run(loader& by) {
  clear_outputs();
  for (auto& i : inputs_) i.fill_zero();
  std::vector<load_item> items;
  for (unsigned const i : reads_) items.push_back({&data_->files().at(i), &inputs_.at(i)});
  device_arrays const a = arrays(true);

  by.prepare(items);

  auto const start = steady::now();
  by.load(items);
  auto const loaded = steady::now();
  port_->compute(a);
  this_thread_stream().synchronize();
  auto const done = steady::now();
  return {seconds_between(start, done), seconds_between(start, loaded),
          seconds_between(loaded, done), by.counters()};
}

run_times session::run_fused(gread_files& files, io_shape shape, bool sums) {
  clear_outputs();
  statistics const before = files.fs().stats();
  std::vector<data_file const*> all;
  for (auto const& f : data_->files()) all.push_back(&f);
  chunk_io const io = files.access(all, shape.request, sums);
  device_arrays const a = arrays(false);
  port_->prepare_fused(shape.blocks);

  auto const start = steady::now();
  port_->compute_fused(io, shape.blocks, shape.threads, a);
  this_thread_stream().synchronize();
  double const seconds = seconds_between(start, steady::now());
  files.require_success();
  return {seconds, seconds, 0, files.fs().stats() - before};
}

std::string session::integrity() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    data_file const& f = data_->files()[i];
    std::string const wrong = compare_sums(f, device_checksum(inputs_[i], f.file.size()));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string session::integrity_of(gread_files const& files) const {
  auto const sums = files.checksums();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::string const wrong = compare_sums(data_->files()[i], sums[i]);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::vector<std::uint64_t> session::output_checksums() const {
  std::vector<std::uint64_t> sums;
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    sums.push_back(device_checksum(outputs_[i], shapes_[i].bytes()));
  return sums;
}

host_outputs session::outputs() const {
  host_outputs out(shapes_);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    outputs_[i].copy_to_host(out.bytes(i).data(), outputs_[i].size());
  return out;
}

std::uint64_t bytes_read_by(port const& application) {
  auto const files = application.files();
  std::uint64_t bytes = 0;
  for (unsigned const i : application.reads()) bytes += files.at(i).bytes;
  return bytes;
}

std::string_view name_of(size_class size) {
  return size == size_class::smoke ? "smoke" : size == size_class::medium ? "medium" : "paper";
}

std::string origin_of(port_description const& what, problem const& which) {
  std::string text = fmt::format("{} {} {} {}", what.name, name_of(which.size),
                                 which.random ? "rand" : "paper", which.seed);
  for (auto const& [name, value] : which.extras) text += fmt::format(" {}={}", name, value);
  return text;
}

}  // namespace gpufs::apps
