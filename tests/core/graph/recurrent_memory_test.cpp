// The memory of persistent recurrent networks, held to the figures of the paper that introduced them.
#include "core/graph/recurrent_memory.h"

#include <limits>

#include "core/graph/zoo.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

using testing::HasSubstr;

// Layers of vanilla cells as in the paper, one after the other.
RecurrentMemory stack(int64_t layers, int64_t units, int64_t steps) {
  Model model = model_of({units, steps, 1}, {});
  model.input_kind = InputKind::kFeatures;
  for (int64_t i = 0; i < layers; ++i)
    model.layers.push_back(layer("rnn" + std::to_string(i), Recurrent{.cell = CellKind::kVanillaRelu, .hidden = units},
                                 {i == 0 ? std::string("input") : "rnn" + std::to_string(i - 1)}));
  return recurrent_memory(Graph(model));
}

TEST(RecurrentMemory, HasThePapersFigures) {
  const RecurrentMemory one = stack(1, 1760, 3000);
  EXPECT_EQ(one.activation_bytes(64), 1'351'680'000);                    // "1.352 GB"
  EXPECT_EQ(one.activation_bytes(4), 84'480'000);                        // "84.5 MB"
  EXPECT_EQ(one.layers[0].recurrent_weight_bytes(), 12'390'400);         // "12.39 MB"
  EXPECT_EQ(stack(108, 1152, 3000).activation_bytes(4), 5'971'968'000);  // "5.97 GB"
  EXPECT_EQ(recurrent_memory(Graph(zoo_model("residual-rnn-108"))).activation_bytes(4), 5'971'968'000);
}

TEST(RecurrentMemory, CountsDirectionsProjectionsAndTheStepsThatConvolutionsLeave) {
  const RecurrentMemory speech = recurrent_memory(Graph(zoo_model("deepspeech2-gru")));
  ASSERT_EQ(speech.layers.size(), 7U);
  EXPECT_EQ(speech.layers[0].features, 2 * 1280);
  EXPECT_EQ(speech.layers[0].steps, 576);
  const RecurrentMemory encoder = recurrent_memory(Graph(zoo_model("rnnt-encoder")));
  EXPECT_EQ(encoder.layers[0].features, 640);
  EXPECT_EQ(encoder.layers[0].recurrent_weights, 4 * 2048 * 640);
  EXPECT_TRUE(recurrent_memory(Graph(zoo_model("lenet5"))).layers.empty());
}

TEST(RecurrentMemory, TheLargestBatchFitsAndOneMoreDoesNot) {
  const RecurrentMemory memory = stack(24, 1152, 3000);
  for (const int64_t budget : {int64_t{1} << 30, int64_t{12} << 30, int64_t{80} << 30}) {
    const int64_t batch = memory.largest_batch(budget);
    if (batch > 0) {
      EXPECT_LE(memory.total_bytes(batch), budget);
    }
    EXPECT_GT(memory.total_bytes(batch + 1), budget);
  }
  EXPECT_EQ(memory.largest_batch(0), 0);
  EXPECT_EQ(memory.largest_batch(memory.total_bytes(7)), 7);
  EXPECT_EQ(memory.largest_batch(memory.total_bytes(7) - 1), 6);
}

TEST(RecurrentMemory, RefusesNumbersWithoutSense) {
  const RecurrentMemory memory = stack(2, 16, 8);
  expect_error(ErrorCode::kUsage, {"a batch of 0"}, [&] { memory.activation_bytes(0); });
  expect_error(ErrorCode::kUsage, {"smaller batch"}, [&] { memory.activation_bytes(std::numeric_limits<int64_t>::max()); });
  expect_error(ErrorCode::kUsage, {"smaller batch"}, [&] { memory.activation_bytes(std::numeric_limits<int64_t>::max() / 4 / 16 / 8); });
  expect_error(ErrorCode::kUsage, {"-1 bytes"}, [&] { memory.largest_batch(-1); });
  expect_error(ErrorCode::kUsage, {"no recurrent layer"}, [] { RecurrentMemory{}.largest_batch(1); });
}

TEST(RecurrentMemory, ReadsAsAFewLines) {
  const std::string text = text_of(stack(108, 1152, 3000), 4, int64_t{12'000'000'000});
  for (const char* part :
       {"batch 4 (modelled", "108 x  1152 features,  3000 steps:   55.30 MB", "5.31 MB recurrent weights (rnn0 to rnn107)",
        "together 5.97 GB of activations", "12.00 GB hold a batch of 5 at most"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text_of(stack(1, 1760, 3000), 4, 1'000'000), HasSubstr("1.00 MB do not hold a single sample"));
  EXPECT_EQ(text_of(RecurrentMemory{}, 4), "");
}

}  // namespace
}  // namespace millrace
