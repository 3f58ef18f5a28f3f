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

constexpr const char* kHeading = "millrace rnn layouts 1";

std::string key_of(const std::string& gpu, const Problem& p) {
  std::ostringstream key;
  for (const char c : gpu) key << (c == '\t' || c == '\n' ? ' ' : c);
  key << '\t' << static_cast<int>(p.recurrence) << ' ' << p.backward << ' ' << static_cast<int>(p.precision) << ' ' << p.hidden << ' '
      << p.batch << ' ' << p.sides;
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

std::string line_of(const std::string& key, const Choice& c) {
  std::ostringstream line;
  const KernelShape& s = c.shape;
  line.precision(9);
  line << key << '\t' << static_cast<int>(s.recurrence) << ' ' << s.backward << ' ' << static_cast<int>(s.precision) << ' '
       << s.matrix_units << ' ' << s.rows << ' ' << s.columns << ' ' << s.group << ' ' << s.samples << ' ' << s.width << ' ' << s.outputs
       << ' ' << c.threads << ' ' << c.slices << ' ' << c.seconds;
  return line.str() + '\t' + checksum_of(line.str());
}

bool parse(const std::string& line, std::string& key, Choice& choice) {
  const std::size_t sum = line.rfind('\t');
  if (sum == std::string::npos || sum == 0 || checksum_of(line.substr(0, sum)) != line.substr(sum + 1)) return false;
  const std::size_t numbers = line.rfind('\t', sum - 1);
  if (numbers == std::string::npos) return false;
  key = line.substr(0, numbers);
  std::istringstream in(line.substr(numbers + 1, sum - numbers - 1));
  int recurrence = 0;
  int precision = 0;
  KernelShape& s = choice.shape;
  in >> recurrence >> s.backward >> precision >> s.matrix_units >> s.rows >> s.columns >> s.group >> s.samples >> s.width >> s.outputs >>
      choice.threads >> choice.slices >> choice.seconds;
  s.recurrence = static_cast<Recurrence>(recurrence);
  s.precision = static_cast<Precision>(precision);
  return !in.fail();
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

std::map<std::string, Choice> SelectionFile::read() const {
  std::map<std::string, Choice> choices;
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != kHeading) return choices;
  while (std::getline(in, line)) {
    std::string key;
    Choice choice;
    if (parse(line, key, choice)) choices[key] = choice;
  }
  return choices;
}

std::optional<Choice> SelectionFile::find(const std::string& gpu, const Problem& problem) const {
  const std::map<std::string, Choice> choices = read();
  const auto found = choices.find(key_of(gpu, problem));
  return found == choices.end() ? std::nullopt : std::optional(found->second);
}

bool SelectionFile::store(const std::string& gpu, const Problem& problem, const Choice& choice) {
  const Lock lock(path_ + ".lock");
  if (!lock.held()) return false;
  std::map<std::string, Choice> choices = read();
  choices[key_of(gpu, problem)] = choice;
  const std::string fresh = path_ + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << kHeading << '\n';
    for (const auto& [key, one] : choices) out << line_of(key, one) << '\n';
    out.flush();
    if (!out) return false;
  }
  return std::rename(fresh.c_str(), path_.c_str()) == 0;
}

std::optional<Layout> choose_layout(const Machine& machine, const Problem& problem, const Gpu& constants, int most, SelectionFile* file,
                                    const std::function<double(const Layout&)>& seconds_of) {
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
    } catch (const RnnError&) {
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
