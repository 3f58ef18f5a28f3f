#include "gpu/rnn/bench/result_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gpu/rnn/error.h"

namespace millrace::rnn {
namespace {

constexpr const char* kCase = "{\"case\": ";
constexpr const char* kBegan = ", \"began\": true}";
constexpr const char* kBroken = ", \"broken\": \"the program ended while this case ran\"}";

std::string opening_of(const std::string& name) { return kCase + quoted(name); }

std::string heading_line(const std::pair<std::string, std::string>& field) { return "  " + quoted(field.first) + ": " + field.second; }

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string finite(double value) {
  std::ostringstream out;
  if (std::isfinite(value))
    out << value;
  else
    out << "null";
  return out.str();
}

std::optional<double> number_in(const std::string& line, const std::string& name) {
  const std::string key = quoted(name) + ": ";
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return std::nullopt;
  const char* const begin = line.c_str() + at + key.size();
  char* end = nullptr;
  const double value = std::strtod(begin, &end);
  return end == begin || !std::isfinite(value) ? std::nullopt : std::optional(value);
}

std::optional<Slice> slice_in(const std::string& text) {
  Slice slice;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%d/%d%c", &slice.index, &slice.count, &rest) != 2) return std::nullopt;
  return slice.count >= 1 && slice.index >= 1 && slice.index <= slice.count ? std::optional(slice) : std::nullopt;
}

void ResultFile::resume(int fields) {
  std::ifstream in(path_);
  if (path_.empty() || !in) return;
  std::vector<std::string> found;
  std::string line;
  int matched = 0;
  while (std::getline(in, line)) {
    if (ends_with(line, ",")) line.pop_back();
    for (int i = 0; i < fields; ++i) matched += line == heading_line(heading_[static_cast<std::size_t>(i)]) ? 1 : 0;
    const std::size_t at = line.find_first_not_of(' ');
    if (at == std::string::npos || line.compare(at, std::string(kCase).size(), kCase) != 0 || !ends_with(line, "}")) continue;
    std::string one = line.substr(at);
    if (ends_with(one, kBegan)) one = one.substr(0, one.size() - std::string(kBegan).size()) + kBroken;
    found.push_back(one);
  }
  if (matched != fields)
    throw RnnError(RnnFailure::kMissingPart,
                   path_ + " holds results of another GPU or another commit; give --json another file, or leave --resume out");
  lines_ = found;
}

bool ResultFile::has(const std::string& name) const {
  const std::string opening = opening_of(name);
  return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
    return line.compare(0, opening.size(), opening) == 0 && (line[opening.size()] == ',' || line[opening.size()] == '}');
  });
}

void ResultFile::begin(const std::string& name) {
  lines_.push_back(opening_of(name) + kBegan);
  write();
}

void ResultFile::end(const std::string& name, const std::string& fields) {
  const std::string began = opening_of(name) + kBegan;
  for (std::string& line : lines_)
    if (line == began) line = opening_of(name) + ", " + fields + "}";
  write();
}

int ResultFile::broken() const {
  return static_cast<int>(std::count_if(lines_.begin(), lines_.end(), [](const std::string& line) { return ends_with(line, kBroken); }));
}

void ResultFile::write(const Fields& more) const {
  if (path_.empty()) return;
  const std::string fresh = path_ + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << "{\n";
    for (const Fields* fields : {&heading_, &more})
      for (const auto& field : *fields) out << heading_line(field) << ",\n";
    out << "  \"cases\": [\n";
    for (std::size_t i = 0; i < lines_.size(); ++i) out << "    " << lines_[i] << (i + 1 < lines_.size() ? ",\n" : "\n");
    out << "  ]\n}\n";
    out.flush();
    if (!out) throw RnnError(RnnFailure::kMissingPart, fresh + " cannot be written; give --json a file in a folder that exists");
  }
  if (std::rename(fresh.c_str(), path_.c_str()) != 0)
    throw RnnError(RnnFailure::kMissingPart, path_ + " cannot be replaced; give --json a file that may be written");
}

}  // namespace millrace::rnn
