#include <gpufs/filesystem.hpp>

#include <apps/common/host_file.hpp>
#include <apps/common/program.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/harness/data_set.hpp>
#include <apps/mosaic/reference.hpp>
#include <apps/mosaic/variant.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <fcntl.h>

namespace gpufs::apps {

namespace {

char const* name_of(match_access how) {
  return how == match_access::gread ? "gread" : how == match_access::gmmap ? "gmmap" : "array";
}

class cpu_variant final : public variant {
 public:
  cpu_variant(mosaic_problem const& p, bool mapped)
      : variant("cpu"), problem_(p), file_(p.files.hist()) {
    if (mapped) map_.emplace(file_);
  }

  variant_outcome run() override {
    auto const by_pread = [&](std::uint32_t id, float* buffer) -> float const* {
      file_.read(buffer, histogram_bytes, id * record_bytes);
      return buffer;
    };
    auto const by_map = [&](std::uint32_t id, float*) {
      return reinterpret_cast<float const*>(map_->bytes().data() + id * record_bytes);
    };
    variant_outcome r;
    auto const start = std::chrono::steady_clock::now();
    histogram_source const source = map_ ? histogram_source(by_map) : histogram_source(by_pread);
    r.matched.best =
        match_on_host(problem_.index.view(), problem_.wanted.places, source, r.matched.compared);
    r.seconds = seconds_since(start);
    return r;
  }

 private:
  mosaic_problem const& problem_;
  host_file file_;
  std::optional<mapped_file> map_;
};

class cpuio_variant final : public variant {
 public:
  cpuio_variant(mosaic_problem const& p, match_shape shape)
      : variant("cpuio"),
        problem_(p),
        file_(p.files.hist()),
        memory_(std::make_unique<std::byte[]>(file_.size())),  // value-initialised: touched
        records_(file_.size()),
        kernel_(p.index, shape) {}

  variant_outcome run() override {
    variant_outcome r;
    auto const start = std::chrono::steady_clock::now();
    file_.read(memory_.get(), file_.size(), 0);
    records_.copy_from_host(memory_.get(), file_.size());
    double const reading = seconds_since(start);
    r.matched = kernel_.resident(problem_.wanted.places, records_.data());
    r.seconds = reading + r.matched.seconds;
    return r;
  }

 private:
  mosaic_problem const& problem_;
  host_file file_;
  std::unique_ptr<std::byte[]> memory_;
  buffer<std::byte> records_;
  match_run kernel_;
};

class file_variant final : public variant {
 public:
  file_variant(mosaic_problem const& p, match_access how, match_shape shape, config const& settings,
               bool random, bool warm)
      : variant(fmt::format("{} {}", name_of(how), format_size(settings.page_size)), settings),
        problem_(p),
        how_(how),
        kernel_(p.index, shape),
        random_(random),
        warm_(warm) {}

  variant_outcome run() override {
    variant_outcome r;
    filesystem fs(*settings());
    int const fd = fs.open(problem_.files.hist(), O_RDONLY);
    if (fd < 0)
      throw std::runtime_error(fmt::format("{}: {}", problem_.files.hist(), error_text(fd)));
    if (int const error = fs.advise(fd, 0, 0, random_ ? advice::random : advice::normal);
        error != 0) {
      throw std::runtime_error(
          fmt::format("advice for {}: {}", problem_.files.hist(), error_text(error)));
    }
    if (warm_)
      r.registering_seconds =
          register_windows(fs, fd, std::filesystem::file_size(problem_.files.hist()));
    statistics const before = fs.stats();
    r.matched = kernel_.from_file(problem_.wanted.places, how_, fs.ref(), fd);
    r.seconds = r.matched.seconds;
    r.counters = fs.stats() - before;
    r.notes = fs.notes();
    fs.close(fd);
    return r;
  }

 private:
  mosaic_problem const& problem_;
  match_access const how_;
  match_run kernel_;
  bool const random_;
  bool const warm_;
};

}  // namespace

std::unique_ptr<variant> make_cpu_variant(mosaic_problem const& p, bool mapped) {
  return std::make_unique<cpu_variant>(p, mapped);
}

std::unique_ptr<variant> make_cpuio_variant(mosaic_problem const& p, match_shape shape) {
  return std::make_unique<cpuio_variant>(p, shape);
}

std::unique_ptr<variant> make_file_variant(mosaic_problem const& p, match_access how,
                                           match_shape shape, config const& settings, bool random,
                                           bool warm) {
  return std::make_unique<file_variant>(p, how, shape, settings, random, warm);
}

}  // namespace gpufs::apps
