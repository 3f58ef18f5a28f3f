// How far two passes of a layer are apart, as the benchmark judges it: every tensor is looked at, each by its own size.
#include "gpu/rnn/bench/comparison.h"

#include <cmath>

#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

const RnnShape kShape{.recurrence = Recurrence::kGru, .inputs = 2, .hidden = 3, .batch = 1, .steps = 2, .training = true};

Results results() {
  Results r;
  r.output = {0.5F, -0.25F, 0.125F};
  r.input_gradient = {100, -50};
  r.gradients.input = {1, 2, 3};
  r.gradients.recurrent = {4, 5, 6};
  r.gradients.bias = {0.001F, 0.002F};
  r.gradients.candidate_bias = {7, 8};
  r.first_state_gradient = {9, 10};
  r.first_cell_gradient = {};  // a GRU has none
  return r;
}

void the_same() {
  const Comparison found = compare(kShape, results(), results());
  expect(found.correct && found.output == 0 && found.worst_gradient.second == 0, "a pass equals itself");
  expect(found.gradients.size() == 6, std::to_string(found.gradients.size()) + " tensors, not dX, dW, dR, two db and dh0");
}

// Each tensor, spoilt alone by a thousandth of its largest element, is found and named.
void each_tensor() {
  std::vector<float> Weights::*const weights[] = {&Weights::input, &Weights::recurrent, &Weights::bias, &Weights::candidate_bias};
  const char* const names[] = {"dW", "dR", "db", "db of the candidate"};
  const auto judge = [&](const Results& spoilt, const std::string& name) {
    const Comparison found = compare(kShape, spoilt, results());
    expect(!found.correct, name + " off by a thousandth is wrong");
    expect(found.worst_gradient.first == name && std::fabs(found.worst_gradient.second - 1e-3) < 1e-5,
           name + ": found " + std::to_string(found.worst_gradient.second) + " in " + found.worst_gradient.first);
  };
  for (int i = 0; i < 4; ++i) {
    Results spoilt = results();
    (spoilt.gradients.*weights[i]).back() *= 1.001F;
    judge(spoilt, names[i]);
  }
  Results spoilt = results();
  spoilt.input_gradient[1] += 0.1F;
  judge(spoilt, "dX");
  spoilt = results();
  spoilt.first_state_gradient[0] -= 0.01F;
  judge(spoilt, "dh0");
  spoilt = results();
  spoilt.output[0] += 0.001F;
  expect(!compare(kShape, spoilt, results()).correct, "an output off by a thousandth is wrong in fp32");
  RnnShape half = kShape;
  half.precision = Precision::kHalf;
  expect(compare(half, spoilt, results()).correct, "and right in fp16");
  expect(gradient_tolerance(Precision::kFloat, Recurrence::kRelu) > gradient_tolerance(Precision::kFloat, Recurrence::kTanh),
         "the rectifier's kink is allowed for");
}

void what_is_no_number_or_missing() {
  Results spoilt = results();
  spoilt.gradients.recurrent[1] = NAN;
  expect(!compare(kShape, spoilt, results()).correct, "a gradient that is no number");
  expect(compare(kShape, spoilt, results()).worst_gradient.first == "dR", "and where it is");
  spoilt = results();
  spoilt.output[2] = NAN;
  expect(!compare(kShape, spoilt, results()).correct, "an output that is no number");
  spoilt = results();
  spoilt.first_state_gradient.clear();
  expect(!compare(kShape, spoilt, results()).correct, "a gradient that is missing");
  expect(!compare(kShape, {results().output, {}, {}, {}, {}}, {results().output, {}, {}, {}, {}}).correct, "training without gradients");
  Results zeros = results();
  zeros.gradients.bias = {0, 0};
  expect(!compare(kShape, results(), zeros).correct, "something where zeros were expected");
  RnnShape inference = kShape;
  inference.training = false;
  const Comparison found = compare(inference, {results().output, {}, {}, {}, {}}, {results().output, {}, {}, {}, {}});
  expect(found.correct && found.gradients.empty(), "inference has outputs alone");
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  the_same();
  each_tensor();
  what_is_no_number_or_missing();
  return report("comparison of passes");
}
