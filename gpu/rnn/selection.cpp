#include "gpu/rnn/selection.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

namespace millrace::rnn {
namespace {

constexpr const char* kHeading = "millrace rnn layouts 2";

// A field of a line.
std::string one_line(const std::string& text) {
  std::string field = text;
  for (char& c : field) c = c == '\t' || c == '\n' ? ' ' : c;
  return field;
}

// Keys have two fields: the GPU, and what was chosen for.
std::string key_of(const std::string& gpu, const Problem& p) {
  std::ostringstream key;
  key << one_line(gpu) << '\t' << static_cast<int>(p.recurrence) << ' ' << p.backward << ' ' << static_cast<int>(p.precision) << ' '
      << p.hidden << ' ' << p.batch << ' ' << p.sides;
  return key.str();
}

std::string key_of(const std::string& gpu, const std::string& library, const RnnShape& s) {
  std::ostringstream key;
  key << one_line(gpu) << "\tlayer " << static_cast<int>(s.recurrence) << ' ' << static_cast<int>(s.precision) << ' ' << s.inputs << ' '
      << s.hidden << ' ' << s.projection << ' ' << s.sides() << ' ' << s.batch << ' ' << s.steps << ' ' << s.training << " against "
      << one_line(library);
  return key.str();
}

// FNV-1a: tells a torn line from a whole one.
std::string checksum_of(const std::string& text) {
  unsigned long long hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", hash);
  return digits;
}

std::string text_of(const Choice& c) {
  std::ostringstream value;
  const KernelShape& s = c.shape;
  value.precision(9);
  value << static_cast<int>(s.recurrence) << ' ' << s.backward << ' ' << static_cast<int>(s.precision) << ' ' << s.matrix_units << ' '
        << s.rows << ' ' << s.columns << ' ' << s.group << ' ' << s.samples << ' ' << s.width << ' ' << s.outputs << ' ' << s.cluster << ' '
        << c.threads << ' ' << c.slices << ' ' << c.seconds;
  return value.str();
}

std::optional<Choice> choice_in(const std::string& value) {
  std::istringstream in(value);
  int recurrence = 0;
  int precision = 0;
  Choice choice;
  KernelShape& s = choice.shape;
  in >> recurrence >> s.backward >> precision >> s.matrix_units >> s.rows >> s.columns >> s.group >> s.samples >> s.width >> s.outputs >>
      s.cluster >> choice.threads >> choice.slices >> choice.seconds;
  s.recurrence = static_cast<Recurrence>(recurrence);
  s.precision = static_cast<Precision>(precision);
  return in.fail() ? std::nullopt : std::optional(choice);
}

constexpr const char* kOwn = "own";
constexpr const char* kLibrary = "library ";

// Who, both times, and why: three fields.
std::string text_of(const Runner& runner) {
  std::ostringstream value;
  value.precision(9);
  value << (runner.is_library() ? kLibrary + one_line(runner.algorithm) : kOwn) << '\t' << runner.own_seconds << ' '
        << runner.dnn_library_seconds << '\t' << one_line(runner.reason);
  return value.str();
}

std::optional<Runner> runner_in(const std::string& value) {
  const std::size_t times = value.find('\t');
  const std::size_t reason = times == std::string::npos ? times : value.find('\t', times + 1);
  if (reason == std::string::npos) return std::nullopt;
  Runner runner;
  const std::string who = value.substr(0, times);
  if (who.rfind(kLibrary, 0) == 0)
    runner.algorithm = who.substr(std::string(kLibrary).size());
  else if (who != kOwn)
    return std::nullopt;
  std::istringstream in(value.substr(times + 1, reason - times - 1));
  in >> runner.own_seconds >> runner.dnn_library_seconds;
  runner.reason = value.substr(reason + 1);
  return in.fail() ? std::nullopt : std::optional(runner);
}

std::string line_of(const std::string& key, const std::string& value) {
  const std::string line = key + '\t' + value;
  return line + '\t' + checksum_of(line);
}

bool split(const std::string& line, std::string& key, std::string& value) {
  const std::size_t sum = line.rfind('\t');
  if (sum == std::string::npos || checksum_of(line.substr(0, sum)) != line.substr(sum + 1)) return false;
  const std::size_t problem = line.find('\t');
  const std::size_t end = problem < sum ? line.find('\t', problem + 1) : sum;
  if (end >= sum) return false;
  key = line.substr(0, end);
  value = line.substr(end + 1, sum - end - 1);
  return true;
}

// Held from open to close; whoever else wants it waits.
class Lock {
 public:
  explicit Lock(const std::string& path) : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (file_ >= 0 && flock(file_, LOCK_EX) != 0) {
      close(file_);
      file_ = -1;
    }
  }
  ~Lock() {
    if (file_ >= 0) close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return file_ >= 0; }

 private:
  int file_;
};

}  // namespace

std::map<std::string, std::string> SelectionFile::read() const {
  std::map<std::string, std::string> values;
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != kHeading) return values;
  while (std::getline(in, line)) {
    std::string key;
    std::string value;
    if (split(line, key, value)) values[key] = value;
  }
  return values;
}

std::optional<std::string> SelectionFile::value_of(const std::string& key) const {
  const std::map<std::string, std::string> values = read();
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

bool SelectionFile::store_value(const std::string& key, const std::string& value) {
  const Lock lock(path_ + ".lock");
  if (!lock.held()) return false;
  std::map<std::string, std::string> values = read();
  values[key] = value;
  const std::string fresh = path_ + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << kHeading << '\n';
    for (const auto& [one_key, one_value] : values) out << line_of(one_key, one_value) << '\n';
    out.flush();
    if (!out) return false;
  }
  return std::rename(fresh.c_str(), path_.c_str()) == 0;
}

std::optional<Choice> SelectionFile::find(const std::string& gpu, const Problem& problem) const {
  const std::optional<std::string> value = value_of(key_of(gpu, problem));
  return value ? choice_in(*value) : std::nullopt;
}

bool SelectionFile::store(const std::string& gpu, const Problem& problem, const Choice& choice) {
  return store_value(key_of(gpu, problem), text_of(choice));
}

std::optional<Runner> SelectionFile::find_runner(const std::string& gpu, const std::string& library, const RnnShape& shape) const {
  const std::optional<std::string> value = value_of(key_of(gpu, library, shape));
  return value ? runner_in(*value) : std::nullopt;
}

bool SelectionFile::store_runner(const std::string& gpu, const std::string& library, const RnnShape& shape, const Runner& runner) {
  return store_value(key_of(gpu, library, shape), text_of(runner));
}

std::optional<Layout> choose_layout(const Machine& machine, const Problem& problem, const Gpu& constants, int most, SelectionFile* file,
                                    const std::function<double(const Layout&)>& seconds_of, std::vector<std::string>* passed_over) {
  const std::vector<Layout> ranked = ranked_layouts(machine.kernels(), machine.limits(), problem, constants);
  if (file != nullptr) {
    if (const std::optional<Choice> known = file->find(machine.name(), problem))
      for (const Layout& layout : ranked)
        if (layout.kernel.shape == known->shape && layout.threads == known->threads && layout.slices == known->slices) return layout;
  }
  std::optional<Layout> best;
  double least_seconds = 0;
  for (std::size_t i = 0; i < ranked.size() && i < static_cast<std::size_t>(most); ++i) {
    double seconds = 0;
    try {
      seconds = seconds_of(ranked[i]);
    } catch (const RnnError& error) {
      if (passed_over != nullptr) passed_over->push_back(name_of(ranked[i]) + ": " + error.what());
      continue;
    }
    if (best && seconds >= least_seconds) continue;
    best = ranked[i];
    least_seconds = seconds;
  }
  if (best && file != nullptr) file->store(machine.name(), problem, {best->kernel.shape, best->threads, best->slices, least_seconds});
  return best;
}

}  // namespace millrace::rnn
