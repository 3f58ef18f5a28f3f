// The benchmark's results as a JSON file that is whole after every case, so that a fault or a time limit loses one case at most.
//
//   ResultFile file("results.json", {{"gpu", quoted(gpu->name())}, {"commit", quoted(id)}});
//   file.resume();                                       // takes over what an earlier run left; throws when it is of another GPU
//   if (!file.has(name)) { file.begin(name); ...; file.end(name, fields); }
//   file.write(more);                                    // with fields that stand after the heading
//
// A case is one line. One that began and never ended in an earlier run is kept as broken, so that a run that goes on passes it
// over. Writes go to a file beside it that then takes its place. An empty path keeps everything in memory. One thread.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace millrace::rnn {

using Fields = std::vector<std::pair<std::string, std::string>>;  // names and JSON values

std::string quoted(const std::string& text);
// null for what is no number.
std::string finite(double value);

// The number after "name": in a line of JSON; none when there is no such number.
std::optional<double> number_in(const std::string& line, const std::string& name);

// Part `index` of `count` parts of the cases, counted from 1: every count-th.
struct Slice {
  int index = 1;
  int count = 1;
  bool takes(int number) const { return number % count == index - 1; }
};
// "2/5"; nothing when it is no such thing.
std::optional<Slice> slice_in(const std::string& text);

// Whether another case may begin: after the longest so far there would still be time.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}  // 0: none
  void add_case(double seconds) { longest_ = seconds > longest_ ? seconds : longest_; }
  bool allows_another(double elapsed) const { return seconds_ <= 0 || elapsed + 1.2 * longest_ < seconds_; }

 private:
  double seconds_;
  double longest_ = 0;
};

class ResultFile {
 public:
  ResultFile(std::string path, Fields heading) : path_(std::move(path)), heading_(std::move(heading)) {}

  // Throws RnnError when the file has another heading (its first `fields` count) or cannot be read; nothing without a file.
  void resume(int fields = 2);
  bool has(const std::string& name) const;
  void begin(const std::string& name);
  // `fields`: JSON members beyond "case", without braces.
  void end(const std::string& name, const std::string& fields);
  void write(const Fields& more = {}) const;

  // Lines of JSON, in the order in which the cases began.
  const std::vector<std::string>& lines() const { return lines_; }
  int broken() const;

 private:
  std::string path_;
  Fields heading_;
  std::vector<std::string> lines_;
};

}  // namespace millrace::rnn
