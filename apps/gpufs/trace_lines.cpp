#include <apps/gpufs/trace_lines.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
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
      out.requests.push_back(request(at, std::move(op), line));
    }
  }

  traced_request request(std::uint64_t at, std::string op, json const& line) {
    traced_request r{.line = at,
                     .op = std::move(op),
                     .path = text(line, "path"),
                     .begin_ns = number(line, "time_ns"),
                     .duration_ns = number(line, "duration_ns"),
                     .thread = number(line, "thread"),
                     .offset = number(line, "offset"),
                     .length = number(line, "length"),
                     .bytes = number(line, "bytes")};
    auto const error = number(line, "errno");
    if (error > 4095) throw std::invalid_argument("\"errno\" must be at most 4095");
    r.error = int(error);
    constexpr auto most = std::uint64_t(std::numeric_limits<std::int64_t>::max());
    if (r.offset > most || r.bytes > most - r.offset)
      throw std::invalid_argument("\"offset\" and \"bytes\" must end below 2^63");
    if (r.begin_ns > most || r.duration_ns > most - r.begin_ns)
      throw std::invalid_argument("\"time_ns\" and \"duration_ns\" must end below 2^63");
    auto const [known, fresh] = numbers_.emplace(text(line, "file"), out.files.size());
    if (fresh) out.files.push_back(known->first);
    r.file = known->second;
    return r;
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
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (in) in.peek();  // a folder opens, and cannot be read
  if (!in.is_open() || in.bad())
    throw std::runtime_error(
        fmt::format("{}: {}", file, errno != 0 ? std::strerror(errno) : "cannot be read"));
  in.clear();
  auto lines = parse(in);
  if (in.bad()) throw std::runtime_error(fmt::format("{}: {}", file, std::strerror(errno)));
  return lines;
}

}  // namespace gpufs::apps
