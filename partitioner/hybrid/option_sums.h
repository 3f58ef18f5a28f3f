// One option of each of several layers so that, added up, they stay within limits: found, or shown not to be there.
//
//   OptionSums sums({100, 8});
//   sums.add_layer({{40, 1}, {10, 5}});        // what each option takes: of the first resource 40 or 10, of the second 1 or 5
//   sums.add_layer({{60, 2}, {30, 6}});
//   OptionAnswer answer = sums.choose(1500);
//   if (answer.verdict == OptionAnswer::Verdict::kFound) use(answer.chosen);      // by layer
//
// Prices of the resources, one after the other closer to those at which even the cheapest options of all layers cost the most, leave out
// every option that is too dear beside the cheapest of the others. What is left is added up layer by layer; of two sums of the same layers
// one that takes no less of anything is dropped, as is a sum that the cheapest of the layers to come bring beyond the limits at one of the
// prices. Where there are more sums than asked for, those at the lowest price go on: then no answer is "undecided", while what is found is
// right. Sums are in the layers' order of size, not the caller's, so a limit may be missed by rounding: who needs it exactly adds up again.
// Amounts are at least 0. Owns what it is given; nothing is shared. Internal to partitioner/hybrid.
#pragma once

#include <cstddef>
#include <vector>

namespace millrace {

struct OptionAnswer {
  enum class Verdict { kFound, kNone, kUndecided } verdict = Verdict::kNone;
  std::vector<size_t> chosen;  // by layer, where found
};

class OptionSums {
 public:
  explicit OptionSums(std::vector<double> limits) : limits_(std::move(limits)) {}

  // Each option has an amount for every limit.
  void add_layer(const std::vector<std::vector<double>>& options);
  OptionAnswer choose(size_t most_sums) const;

 private:
  struct Option {
    size_t place = 0;             // as it was added
    std::vector<double> amounts;  // as parts of the limits
  };
  using Layer = std::vector<Option>;

  std::vector<double> limits_;
  std::vector<Layer> layers_;
};

}  // namespace millrace
