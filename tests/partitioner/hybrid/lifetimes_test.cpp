#include "partitioner/hybrid/lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/graph/zoo.h"
#include "partitioner/hybrid/segment_load.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace {
namespace {

// A pipeline of rows by brute force: every engine works a full image period, takes its rows one after the other, begins
// one when the rows it reads have begun and ends it no sooner than they end.
class RowPipeline {
 public:
  explicit RowPipeline(const Graph& graph) {
    Rows rows = even_rows(graph);
    for (const Node& node : graph.nodes()) {
      Window window;
      if (!window_of(node, window)) continue;
      const bool works = std::holds_alternative<Conv2d>(node.layer.operation);
      const auto needs = [&](int64_t r) { return std::clamp<int64_t>(r * window.stride - window.pad + window.kernel, 1, window.input); };
      rows = works ? work(rows, window.input, needs, window.output) : pass(rows, window.input, needs, window.output);
      layers_.push_back({window, works, rows, {}});
    }
    // Dense layers stream on in the last map's rows, there and back.
    const int64_t last = layers_.back().window.output;
    for (int way = 0; way < 2; ++way)
      rows = work(
          rows, last, [](int64_t r) { return r + 1; }, last);
    for (size_t l = layers_.size(); l-- > 0;) {
      Layer& layer = layers_[l];
      const Window& window = layer.window;
      if (layer.works)
        layer.gradient = work(
            rows, window.output, [](int64_t r) { return r + 1; }, window.output);
      const auto needs = [&](int64_t r) { return std::clamp<int64_t>((r + window.pad) / window.stride + 1, 1, window.output); };
      rows = layer.works ? work(rows, window.output, needs, window.input) : pass(rows, window.output, needs, window.input);
    }
  }

  // Of every convolution: samples of its input held between FP and PG, the mean over an image period.
  std::vector<double> held() const {
    std::vector<double> means;
    for (const Layer& layer : layers_) {
      if (!layer.works) continue;
      const Window& window = layer.window;
      const auto used = [&](int64_t r) { return std::min(r * window.stride - window.pad + window.kernel, window.input); };
      const auto released = [&](int64_t r) {
        return r + 1 == window.output ? window.input : std::clamp<int64_t>((r + 1) * window.stride - window.pad, 0, window.input);
      };
      means.push_back((area(layer.forward, window, used) - area(layer.gradient, window, released)) / static_cast<double>(window.input));
    }
    return means;
  }

 private:
  struct Window {
    int64_t kernel = 1, stride = 1, pad = 0, input = 1, output = 1;
  };
  using Rows = std::vector<std::pair<double, double>>;  // begin and end, in image periods, sample after sample
  struct Layer {
    Window window;
    bool works = false;
    Rows forward, gradient;
  };

  static constexpr int64_t kSamples = 32;

  static bool window_of(const Node& node, Window& window) {
    const int64_t input = node.input_shapes[0].height, output = node.output.height;
    if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation))
      window = {conv->kernel_h, conv->stride_h, conv->pad_h, input, output};
    else if (const auto* pool = std::get_if<Pool2d>(&node.layer.operation))
      window = {pool->kernel_h, pool->stride_h, pool->pad_h, input, output};
    else
      return false;
    return true;
  }

  static Rows even_rows(const Graph& graph) {
    const int64_t height = graph.shape_of(kNetworkInput).height;
    Rows rows;
    for (int64_t r = 0; r < kSamples * height; ++r)
      rows.emplace_back(static_cast<double>(r) / static_cast<double>(height), static_cast<double>(r + 1) / static_cast<double>(height));
    return rows;
  }

  template <typename Needs>
  static Rows work(const Rows& from, int64_t above, const Needs& needs, int64_t here) {
    Rows rows;
    double free = 0;
    for (int64_t s = 0; s < kSamples; ++s) {
      for (int64_t r = 0; r < here; ++r) {
        const auto& [begin, end] = from[static_cast<size_t>(s * above + needs(r) - 1)];
        const double start = std::max(free, begin);
        free = std::max(start + 1 / static_cast<double>(here), end);
        rows.emplace_back(start, free);
      }
    }
    return rows;
  }

  template <typename Needs>
  static Rows pass(const Rows& from, int64_t above, const Needs& needs, int64_t here) {
    Rows rows;
    for (int64_t s = 0; s < kSamples; ++s)
      for (int64_t r = 0; r < here; ++r) rows.push_back(from[static_cast<size_t>(s * above + needs(r) - 1)]);
    return rows;
  }

  // Integral over a period in the middle of the run of how many input rows have gone by.
  template <typename Counts>
  static double area(const Rows& rows, const Window& window, const Counts& counts) {
    constexpr double kFrom = kSamples / 2, kTo = kFrom + 1;
    double sum = 0;
    int64_t before = 0;
    for (int64_t i = 0; i < kSamples * window.output; ++i) {
      const int64_t now = i / window.output * window.input + counts(i % window.output);
      const auto& [begin, end] = rows[static_cast<size_t>(i)];
      const double from = std::clamp(begin, kFrom, kTo), to = std::clamp(end, kFrom, kTo);
      // A row under way counts as far as it is.
      const auto part = [&](double time) { return (time - begin) / (end - begin); };
      sum += static_cast<double>(now - before) * ((part(from) + part(to)) / 2 * (to - from) + (kTo - to));
      before = now;
    }
    return sum;
  }

  std::vector<Layer> layers_;
};

std::vector<double> lifetimes_of_convolutions(const Graph& graph, const LifetimeRules& rules) {
  const std::vector<double> all = activation_lifetimes(graph, rules);
  std::vector<double> chosen;
  for (size_t g = 0; g < graph.groups().size(); ++g)
    if (std::holds_alternative<Conv2d>(graph.node(graph.groups()[g].head).layer.operation)) chosen.push_back(all[g]);
  return chosen;
}

TEST(ActivationLifetimes, AreFpdeepsWhenErrorsPassStridesInNoTime) {
  const auto first = [](const char* name) { return activation_lifetimes(Graph(zoo_model(name)), {.instant_unpooling = true}).front(); };
  EXPECT_NEAR(first("alexnet"), 0.92, 0.005);
  EXPECT_NEAR(first("vgg16"), 0.94, 0.005);
  EXPECT_NEAR(first("vgg19"), 1.19, 0.005);
}

TEST(ActivationLifetimes, AreWhatAPipelineOfRowsHolds) {
  for (const char* name : {"vgg16", "vgg19"}) {
    const Graph graph(zoo_model(name));
    const std::vector<double> lifetimes = lifetimes_of_convolutions(graph, {});
    const std::vector<double> held = RowPipeline(graph).held();
    ASSERT_EQ(lifetimes.size(), held.size());
    for (size_t l = 0; l < held.size(); ++l) EXPECT_NEAR(lifetimes[l], held[l], 0.013) << name << ", convolution " << l;
    EXPECT_NEAR(lifetimes.front(), held.front(), 1e-3) << name;
  }
  // Maps of two rows and of one: lags do not quite add up, and memory is planned for their sum.
  const Graph small(zoo_model("vgg11-cifar"));
  EXPECT_GE(lifetimes_of_convolutions(small, {}).front(), RowPipeline(small).held().front());
  EXPECT_LE(lifetimes_of_convolutions(small, {}).front(), 1.12 * RowPipeline(small).held().front());
  // Strides that do not divide: 55 rows become 27, 27 become 13, 13 become 6.
  const Graph alexnet(zoo_model("alexnet"));
  const std::vector<double> lifetimes = lifetimes_of_convolutions(alexnet, {});
  const std::vector<double> held = RowPipeline(alexnet).held();
  for (size_t l = 0; l < held.size(); ++l) EXPECT_NEAR(lifetimes[l] / held[l], 1, 0.03) << "convolution " << l;
}

TEST(ActivationLifetimes, GrowByWhatUnpoolingTakes) {
  const Graph graph(zoo_model("vgg16"));
  const double longer = activation_lifetimes(graph, {}).front() - activation_lifetimes(graph, {.instant_unpooling = true}).front();
  double expected = 0;  // (s-1)/H of five poolings by two
  for (const double rows : {224, 112, 56, 28, 14}) expected += 1 / rows;
  EXPECT_NEAR(longer, expected, 1e-12);
}

// Without padding the last K rows of input wait for the last row of error; with it they do not.
TEST(ActivationLifetimes, OfMapsThatShrinkLastToTheLastError) {
  const Graph lenet(zoo_model("lenet5"));
  const std::vector<double> plain = activation_lifetimes(lenet, {});
  const std::vector<double> whole = activation_lifetimes(lenet, {.unpadded_ends = true});
  const auto group = [&](const char* layer) { return static_cast<size_t>(lenet.node(lenet.find(layer)).group); };
  EXPECT_NEAR(whole[group("conv2")] - plain[group("conv2")], 4.0 / 14, 1e-12);  // 5x5 on 14 rows
  EXPECT_NEAR(whole[group("conv1")] - plain[group("conv1")], 4.0 / 32, 1e-12);  // 5x5 on 32
  const Graph vgg(zoo_model("vgg16"));                                          // padded
  const std::vector<double> padded = activation_lifetimes(vgg, {.unpadded_ends = true});
  for (size_t g = 0; g < padded.size(); ++g) EXPECT_NEAR(padded[g], activation_lifetimes(vgg, {})[g], 1e-12) << g;
}

// A short cut's rows wait where it joins the longer way: its activation is as old as if it had taken that way, but for what the
// longer way's own kernel holds on to. conv1 (3x3, by 2) and conv2 (3x3) beside downsample.0 (1x1, by 2), from 56 rows to 28.
TEST(ActivationLifetimes, OfShortCutsLastUntilTheLongWayHasReturned) {
  const Graph graph(zoo_model("resnet18"));
  const std::vector<double> lifetimes = activation_lifetimes(graph, {});
  const auto of = [&](const char* layer) { return lifetimes[static_cast<size_t>(graph.node(graph.find(layer)).group)]; };
  // Back through conv2 a row of 28, and PG of conv1 a padding of 56 more.
  EXPECT_NEAR(of("layer2.0.conv1") - of("layer2.0.downsample.0"), 1.0 / 28 + 1.0 / 56, 1e-12);
  // conv2 reads a row of 56 later, and PG of it holds a padding of 28 longer.
  EXPECT_NEAR(of("layer2.0.conv2") - of("layer2.0.downsample.0"), 1.0 / 28 - 1.0 / 56, 1e-12);
}

// Links of 0.5, 1 and 2 us, there and back, in periods of 10 us.
TEST(ActivationLifetimes, GrowByTheLatencyToTheRingsEndAndBack) {
  const Graph graph(zoo_model("vgg16"));
  const Chain chain(graph);
  const testing_support::DrawnCostModel board({.dedicated = true});
  PlanTask task;
  task.graph = &graph;
  task.cluster = uniform_cluster("board", 4, {100, 100, 0, 0.5});
  task.cluster.links[1].latency_us = 1;
  task.cluster.links[2].latency_us = 2;
  task.models.assign(4, &board);
  const std::vector<double> lifetimes = activation_lifetimes(graph, {});
  const auto more = [&](int64_t device, bool exact) {
    const SegmentLoads loads(chain, task, lifetimes, 1, std::vector<int64_t>(4, 1));
    const int64_t end = chain.end_of(0);
    const BlockList blocks = chain.blocks(0, 0, end);
    const ShardQuestion question =
        exact ? loads.exact_question(device, 0, end, 10e-6, 10e-6, blocks) : loads.question(device, 0, end, 10e-6, blocks);
    return question.lifetime - lifetimes.front();
  };
  const std::vector<double> expected = {0.7, 0.6, 0.4, 0};
  for (int64_t d = 0; d < 4; ++d) {
    EXPECT_NEAR(more(d, true), expected[static_cast<size_t>(d)], 1e-9) << d;
    EXPECT_GE(more(d, false), more(d, true) - 1e-9) << "the search never reckons with less";
    EXPECT_LE(more(d, false), more(d, true) + 0.7 / 4 + 1e-9) << "nor with more than a step beyond";
  }
  task.options.fpdeep_lifetimes = true;
  EXPECT_EQ(more(0, true), 0);
}

}  // namespace
}  // namespace millrace
