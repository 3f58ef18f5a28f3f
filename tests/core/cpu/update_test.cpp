// The CPU device's updates are loops of vectors, one per optimizer; their bits are those of the formula taken element by element.
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "core/base/random.h"
#include "core/cpu/vector_math.h"
#include "core/device/optimizer_math.h"

namespace millrace::cpu {

namespace {

constexpr size_t kCount = 1003;  // no multiple of a vector

std::vector<float> drawn(const char* stream, float least) {
  const Philox draw(3, stream_id(stream));
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = draw.uniform(i) + least;
  return values;
}

// What an update reads and writes.
struct State {
  std::vector<float> weights = drawn("weights", -0.5f), first = drawn("first", -0.5f), second = drawn("second", 0),
                     average = drawn("average", 0);
  bool operator==(const State&) const = default;
};

}  // namespace

TEST(CpuUpdate, HasTheBitsOfTheFormulaWhateverTheOptimizer) {
  const std::vector<float> gradients = drawn("gradients", -0.5f);
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam, OptimizerKind::kAdamW})
    for (const std::optional<double> limit : {std::optional<double>(), std::optional(0.25)})
      for (const double average_decay : {0.0, 0.9}) {
        SCOPED_TRACE(static_cast<int>(kind));
        const UpdateArguments arguments{.optimizer = {.kind = kind, .weight_decay = 1e-2, .average_decay = average_decay},
                                        .learning_rate = 0.1,
                                        .gradient_scale = 0.7,
                                        .value_limit = limit,
                                        .step = 3};
        State mine, formula;
        const int slots = arguments.optimizer.kind_slots();
        update(arguments, mine.weights.data(), gradients.data(), slots > 0 ? mine.first.data() : nullptr,
               slots > 1 ? mine.second.data() : nullptr, average_decay > 0 ? mine.average.data() : nullptr, kCount);
        const OptimizerMath<float> math(arguments);
        for (size_t i = 0; i < kCount; ++i)
          math(formula.weights[i], gradients[i], &formula.first[i], &formula.second[i], average_decay > 0 ? &formula.average[i] : nullptr);
        EXPECT_EQ(mine, formula);
        EXPECT_NE(mine.weights, State().weights);
      }
}

}  // namespace millrace::cpu
