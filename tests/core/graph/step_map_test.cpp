// Valid rows of short samples, against the shapes of a network built for that length.
#include "core/graph/step_map.h"

#include "core/base/random.h"
#include "core/graph/zoo.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

TEST(StepMap, IsTheShapeOfANetworkOfThatLength) {
  const Philox draw(3, stream_id("step map"));
  uint64_t next = 0;
  const auto between = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(draw.below(next++, static_cast<uint64_t>(most - least + 1)));
  };
  int compared = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Layer> layers;
    for (int64_t i = 0; i < between(1, 3); ++i) {
      const std::string name = "layer" + std::to_string(i);
      const std::string source = i == 0 ? "input" : "layer" + std::to_string(i - 1);
      const int64_t kernel = between(1, 4);
      if (between(0, 1) == 0) {
        layers.push_back(layer(
            name,
            Conv2d{
                .out_channels = 2, .kernel_h = kernel, .stride_h = between(1, 3), .pad_h = between(0, kernel), .dilation_h = between(1, 2)},
            {source}));
      } else {
        layers.push_back(layer(name,
                               Pool2d{.kernel_h = kernel,
                                      .kernel_w = 1,
                                      .stride_h = between(1, 3),
                                      .stride_w = 1,
                                      .pad_h = kernel / 2,
                                      .ceil_mode = between(0, 1) == 1},
                               {source}));
      }
    }
    const Graph whole(model_of({1, 40, 3}, layers));
    const int64_t end = static_cast<int64_t>(whole.nodes().size()) - 1;
    const StepMap map = step_map_of(whole, end);
    EXPECT_EQ(map.steps(0), 0);
    EXPECT_EQ(map.steps(40), whole.shape_of(end).height);
    for (int64_t length = 1; length <= 40; ++length) {
      EXPECT_GE(map.steps(length), 1);
      EXPECT_LE(map.steps(length), whole.shape_of(end).height);
      EXPECT_GE(map.steps(length), map.steps(length - 1));
      try {
        const Graph alone(model_of({1, length, 3}, layers));
        EXPECT_EQ(map.steps(length), alone.shape_of(end).height) << trial << " " << length;
        ++compared;
      } catch (const Error&) {
        // too short for its windows
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST(StepMap, OfTheZoo) {
  const Graph deepspeech(zoo_model("deepspeech2-lstm"));
  EXPECT_EQ(step_map_of(deepspeech, kNetworkInput).steps(700), 700);
  EXPECT_EQ(step_map_of(deepspeech, deepspeech.index_of("conv1")).steps(700), 350);
  EXPECT_EQ(step_map_of(deepspeech, deepspeech.index_of("rnn7")).steps(701), 351);
  EXPECT_EQ(step_map_of(deepspeech, deepspeech.index_of("rnn7")).steps(1152), 576);
  EXPECT_EQ(step_map_of(deepspeech, deepspeech.index_of("rnn7")).steps(99999), 576);
  const Graph classifier(zoo_model("text-classifier"));
  EXPECT_EQ(step_map_of(classifier, classifier.index_of("lstm2")).steps(7), 7);
  EXPECT_EQ(step_map_of(classifier, classifier.index_of("fc")).steps(7), 1);
  EXPECT_EQ(step_map_of(classifier, classifier.index_of("fc")).steps(0), 0);
}

}  // namespace
}  // namespace millrace
