#include "gpu/rnn/bench/grid.h"

namespace millrace::rnn {

std::vector<Case> grid(Extent extent) {
  constexpr int kSteps = 100;  // GRNN's
  const bool full = extent == Extent::kFull;
  const std::vector<int> hidden_sizes = full ? std::vector<int>{64, 256, 512, 1024, 1536, 2048} : std::vector<int>{64, 1024};
  const std::vector<int> batches = full ? std::vector<int>{1, 2, 4, 8, 10, 20, 32} : std::vector<int>{1, 10};
  std::vector<Case> cases;
  for (const Recurrence recurrence : {Recurrence::kLstm, Recurrence::kGru})
    for (const Precision precision : {Precision::kFloat, Precision::kHalf, Precision::kBFloat16})
      for (const int hidden : hidden_sizes)
        for (const int batch : batches)
          for (const bool training : {false, true})
            cases.push_back({"grid",
                             {.recurrence = recurrence,
                              .inputs = hidden,
                              .hidden = hidden,
                              .batch = batch,
                              .steps = kSteps,
                              .precision = precision,
                              .training = training}});
  if (!full) return cases;
  for (const int batch : {1, 2, 4, 8, 16, 32, 64})
    cases.push_back({"persistent-rnns-figure-1",
                     {.recurrence = Recurrence::kRelu, .inputs = 1152, .hidden = 1152, .batch = batch, .steps = 512, .training = true}});
  for (const int batch : {1, 10, 20}) {
    cases.push_back({"char-rnn", {.recurrence = Recurrence::kLstm, .inputs = 128, .hidden = 128, .batch = batch, .steps = kSteps}, 3});
    cases.push_back(
        {"text-classification", {.recurrence = Recurrence::kLstm, .inputs = 256, .hidden = 256, .batch = batch, .steps = kSteps}, 2});
  }
  return cases;
}

std::string name_of(const Case& one) {
  const RnnShape& s = one.shape;
  return one.group + (one.layers > 1 ? " (" + std::to_string(one.layers) + " layers)" : "") + " " + std::string(name_of(s.recurrence)) +
         " " + std::string(name_of(s.precision)) + " hidden " + std::to_string(s.hidden) + " batch " + std::to_string(s.batch) + " steps " +
         std::to_string(s.steps) + (s.training ? " forward+backward" : " inference");
}

}  // namespace millrace::rnn
