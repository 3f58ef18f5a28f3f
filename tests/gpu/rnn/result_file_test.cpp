// The benchmark's results: whole after every case, slices that together are all cases, runs that go on where one stopped or died.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "gpu/rnn/bench/outcome_json.h"
#include "gpu/rnn/error.h"
#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

const Fields kHeading = {{"gpu", "\"a \\\"GPU\\\"\""}, {"commit", "\"c\""}, {"command", "\"x\""}};

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Braces, brackets and quotes in balance: enough to tell a torn file.
bool is_whole(const std::string& text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_text && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_text = !in_text;
    } else if (!in_text) {
      depth += text[i] == '{' || text[i] == '[' ? 1 : text[i] == '}' || text[i] == ']' ? -1 : 0;
    }
  }
  return depth == 0 && !in_text && text.size() > 2;
}

Outcome outcome_of(const Case& one, double ratio, bool correct) {
  Outcome o;
  o.one = one;
  o.layout = "some \"layout\"";
  o.passed_over = {"another: it hung"};
  o.ours.what = "ours";
  o.ours.microseconds = 100;
  o.peers.push_back({"standard", 100 * ratio, {}, ""});
  o.chosen = o.ours;
  o.compared = true;
  o.correct = correct;
  o.ratio = o.chosen_ratio = ratio;
  o.recurrence = {{100, 1000}, {130, 1030}, {}, ""};
  return o;
}

void files() {
  const std::string path = (std::filesystem::temp_directory_path() / ("millrace_results_" + std::to_string(getpid()) + ".json")).string();
  std::filesystem::remove(path);
  const std::vector<Case> cases = grid(Extent::kQuick);
  {
    ResultFile file(path, kHeading);
    file.resume();
    expect(file.lines().empty(), "nothing to go on with");
    for (int i = 0; i < 2; ++i) {
      const std::string name = name_of(cases[static_cast<std::size_t>(i)]);
      expect(!file.has(name), name + " is new");
      file.begin(name);
      expect(is_whole(text_of(path)), "whole while a case runs");
      file.end(name, fields_of(outcome_of(cases[static_cast<std::size_t>(i)], i == 0 ? 4 : 1, true)));
      expect(is_whole(text_of(path)) && file.has(name), "whole after a case");
    }
    file.begin(name_of(cases[2]));  // ... and the program dies
  }
  ResultFile file(path, kHeading);
  file.resume();
  expect(file.lines().size() == 3 && file.broken() == 1, std::to_string(file.lines().size()) + " cases taken over, one broken");
  expect(file.has(name_of(cases[0])) && file.has(name_of(cases[2])) && !file.has(name_of(cases[3])), "which ones");
  Summary summary = summary_of(file);
  expect(summary.cases == 3 && summary.wrong == 1 && std::fabs(summary.mean - 2) < 1e-12 && summary.worst == 1,
         "two right with a mean of two, a broken one: " + std::to_string(summary.mean));
  file.begin(name_of(cases[3]));
  file.end(name_of(cases[3]), fields_of(outcome_of(cases[3], 0, false)));
  summary = summary_of(file);
  expect(summary.wrong == 2, "a wrong case counts");
  file.write(fields_of(summary));
  const std::string text = text_of(path);
  expect(is_whole(text) && text.find("\"wrong\": 2") != std::string::npos && text.find("some \\\"layout\\\"") != std::string::npos &&
             text.find("\"passed_over\": [\"another: it hung\"]") != std::string::npos &&
             text.find("\"forward_microseconds_per_step\": 1}") != std::string::npos,
         text);
  ResultFile again(path, kHeading);
  again.resume();
  expect(again.lines() == file.lines(), "summaries are no cases");
  ResultFile foreign(path, {{"gpu", "\"another\""}, {"commit", "\"c\""}});
  try {
    foreign.resume();
    expect(false, "another GPU's results must be refused");
  } catch (const RnnError& error) {
    expect(std::string(error.what()).find("another GPU") != std::string::npos, error.what());
  }
  try {
    ResultFile("/nowhere/at/all.json", kHeading).write();
    expect(false, "a folder that is not there");
  } catch (const RnnError&) {
  }
  ResultFile in_memory("", kHeading);
  in_memory.begin("x");
  in_memory.end("x", "\"right\": true");
  expect(in_memory.has("x") && !std::filesystem::exists(".new"), "without a file");
  std::filesystem::remove(path);
}

void slices() {
  for (const int count : {1, 2, 7}) {
    std::set<int> taken;
    for (int index = 1; index <= count; ++index)
      for (int i = 0; i < 50; ++i)
        if (Slice{index, count}.takes(i)) expect(taken.insert(i).second, "a case in two slices");
    expect(taken.size() == 50, "slices are all cases together");
  }
  expect(slice_in("2/5") && slice_in("2/5")->index == 2 && slice_in("2/5")->count == 5, "2/5");
  for (const char* text : {"", "2", "0/5", "6/5", "2/5x", "a/b", "-1/2"}) expect(!slice_in(text), text);
  Deadline none(0);
  none.add_case(1e9);
  expect(none.allows_another(1e9), "no deadline");
  Deadline ten(10);
  expect(ten.allows_another(9), "the first case begins");
  ten.add_case(3);
  expect(ten.allows_another(6) && !ten.allows_another(7), "the longest must still fit");
  expect(number_in("{\"a\": 1.5, \"b\": null}", "a") == 1.5 && !number_in("{\"a\": 1.5, \"b\": null}", "b") && !number_in("{}", "a"),
         "numbers");
  expect(slope_of({100, 1000}, {130, 1030}) == 1 && std::isnan(slope_of({100}, {1})), "slopes");
  std::set<std::string> names;
  for (const Case& one : grid(Extent::kFull)) names.insert(name_of(one));
  expect(names.size() == grid(Extent::kFull).size(), "every case has a name of its own");
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  files();
  slices();
  return report("results of the benchmark");
}
