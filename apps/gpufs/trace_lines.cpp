#include <apps/gpufs/trace_lines.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gpufs::apps {

namespace {

using nlohmann::json;

std::uint64_t number(json const& line, char const* key) {
  auto const at = line.find(key);
  if (at == line.end() || !at->is_number_unsigned())
    throw std::invalid_argument(fmt::format("\"{}\" must be a number that is not negative", key));
  return at->get<std::uint64_t>();
}

std::string text(json const& line, char const* key) {
  auto const at = line.find(key);
  if (at == line.end() || !at->is_string())
    throw std::invalid_argument(fmt::format("\"{}\" must be a string", key));
  return at->get<std::string>();
}

class parser {
 public:
  void add(std::uint64_t number, std::string const& line) {
    try {
      auto const parsed = json::parse(line);
      if (!parsed.is_object()) throw std::invalid_argument("must be a JSON object");
      take(number, parsed);
    } catch (json::exception const&) {
      out.malformed.push_back({number, "is no JSON"});
    } catch (std::invalid_argument const& e) {
      out.malformed.push_back({number, e.what()});
    }
  }

  trace_lines out;

 private:
  void take(std::uint64_t at, json const& line) {
    auto op = text(line, "op");
    if (op == "begin") {
      ++out.begun;
    } else if (op == "end") {
      out.dropped += number(line, "dropped");
      ++out.ended;
    } else {
      take_requests(at, std::move(op), line);
    }
  }

  // Takes all requests of a line, or none.
  void take_requests(std::uint64_t at, std::string op, json const& line) {
    auto shared = shared_part(at, std::move(op), line);
    auto const begin_ns = number(line, "time_ns");
    auto const list = line.find("requests");
    if (list == line.end() || !list->is_array() || list->empty())
      throw std::invalid_argument("\"requests\" must be a list of requests");
    std::vector<traced_request> taken;
    for (auto const& one : *list) {
      taken.push_back(shared);
      add_own_part(taken.back(), begin_ns, one);
    }
    auto const [known, fresh] = numbers_.emplace(text(line, "file"), out.files.size());
    if (fresh) out.files.push_back(known->first);
    for (auto& r : taken) {
      r.file = known->second;
      out.requests.push_back(std::move(r));
    }
  }

  static traced_request shared_part(std::uint64_t at, std::string op, json const& line) {
    traced_request r{.line = at,
                     .op = std::move(op),
                     .path = text(line, "path"),
                     .thread = number(line, "thread"),
                     .length = number(line, "length"),
                     .bytes = number(line, "bytes")};
    auto const error = number(line, "errno");
    if (error > 4095) throw std::invalid_argument("\"errno\" must be at most 4095");
    r.error = int(error);
    return r;
  }

  // `one`: its begin after begin_ns, its duration, its offset.
  static void add_own_part(traced_request& r, std::uint64_t begin_ns, json const& one) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    if (!one.is_array() || one.size() != 3 || !one[0].is_number_integer() ||
        !one[1].is_number_unsigned() || !one[2].is_number_unsigned())
      throw std::invalid_argument("each of \"requests\" must be [begin, duration, offset]");
    if (one[0].is_number_unsigned() && one[0].get<std::uint64_t>() > std::uint64_t(most))
      throw std::invalid_argument("a request must begin below 2^63");
    auto const after = one[0].get<std::int64_t>();
    r.duration_ns = one[1].get<std::uint64_t>();
    r.offset = one[2].get<std::uint64_t>();
    if (r.offset > std::uint64_t(most) || r.bytes > std::uint64_t(most) - r.offset)
      throw std::invalid_argument("offset and \"bytes\" must end below 2^63");
    if (begin_ns > std::uint64_t(most) || after > most - std::int64_t(begin_ns) ||
        after < -std::int64_t(begin_ns))
      throw std::invalid_argument("a request must begin from 0 ns on and below 2^63 ns");
    r.begin_ns = begin_ns + std::uint64_t(after);
    if (r.duration_ns > std::uint64_t(most) - r.begin_ns)
      throw std::invalid_argument("a request must end below 2^63 ns");
  }

  std::map<std::string, std::size_t> numbers_;
};

trace_lines parse(std::istream& in) {
  parser p;
  std::string line;
  for (std::uint64_t number = 1; std::getline(in, line); ++number) p.add(number, line);
  return std::move(p.out);
}

}  // namespace

trace_lines parse_trace(std::string_view text) {
  std::istringstream in{std::string(text)};
  return parse(in);
}

trace_lines read_trace(std::string const& file) {
  // A device may have no end, and a FIFO waits for its writer.
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored))
    throw std::runtime_error(fmt::format("{}: must be a regular file", file));
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (in) in.peek();
  if (!in.is_open() || in.bad())
    throw std::runtime_error(
        fmt::format("{}: {}", file, errno != 0 ? std::strerror(errno) : "cannot be read"));
  in.clear();
  auto lines = parse(in);
  if (in.bad()) throw std::runtime_error(fmt::format("{}: {}", file, std::strerror(errno)));
  return lines;
}

}  // namespace gpufs::apps
