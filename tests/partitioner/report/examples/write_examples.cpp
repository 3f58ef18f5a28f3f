// Writes the report of every example plan, or of those named: write_report_examples FOLDER [NAME...]
#include <fmt/core.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/partitioner/report/examples/example_plans.h"

int main(int count, char** words) {
  if (count < 2) {
    fmt::print(stderr, "usage: write_report_examples FOLDER [NAME...]\n");
    return 2;
  }
  std::vector<std::string> names(words + 2, words + count);
  if (names.empty()) names = millrace::testing_support::example_names();
  try {
    for (const std::string& name : names) {
      const millrace::testing_support::Example example = millrace::testing_support::example_of(name);
      millrace::write_plan_report(std::filesystem::path(words[1]) / name, example.plan, example.graph, example.summary, example.context);
    }
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "write_report_examples: {}\n", error.what());
    return 1;
  }
  return 0;
}
