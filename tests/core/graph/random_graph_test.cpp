// Properties that hold for any model, over random ones whose documents are shuffled or not.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/random.h"
#include "core/graph/graph.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

struct RandomModel {
  Model model;
  int64_t parameters = 0;                   // counted while it was made, by formula
  std::map<std::string, Shape> shapes;      // likewise
  std::set<std::string> error_is_needed;    // likewise
  std::map<std::string, bool> is_computed;  // likewise
};

// Layers that keep height and width, each reading what exists already; what nobody reads is concatenated at the end.
class Maker {
 public:
  explicit Maker(uint64_t seed) : draw_(seed, stream_id("random graph")) {}

  RandomModel make() {
    made_.model = model_of({pick(1, 4), pick(2, 5), pick(2, 5)}, {});
    made_.shapes["input"] = made_.model.input;
    tensors_ = {"input"};
    const int64_t count = pick(1, 24);
    for (int64_t i = 0; i < count; ++i) append_any(fmt::format("n{}", i));
    std::vector<std::string> unread;
    for (const std::string& tensor : tensors_)
      if (tensor != "input" && !read_.contains(tensor)) unread.push_back(tensor);
    if (unread.size() > 1) append_concat("gather", unread);
    const std::string end = tensors_.back() == "gather" ? "gather" : unread[0];
    append("loss", SoftmaxCrossEntropy{}, {end}, made_.shapes[end], 0, false);
    if (pick(0, 1) == 1) shuffle();
    return made_;
  }

 private:
  int64_t pick(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(draw_.below(next_++, static_cast<uint64_t>(most - least + 1)));
  }
  const std::string& any_tensor() { return tensors_[static_cast<size_t>(pick(0, static_cast<int64_t>(tensors_.size()) - 1))]; }

  void append(const std::string& name, Operation operation, std::vector<std::string> inputs, Shape output, int64_t parameters,
              bool computes) {
    const bool frozen = pick(0, 3) == 0;
    bool needed = parameters > 0 && !frozen;
    for (const std::string& input : inputs) {
      read_.insert(input);
      needed |= made_.error_is_needed.contains(input);
    }
    if (needed) made_.error_is_needed.insert(name);
    made_.parameters += parameters;
    made_.shapes[name] = output;
    made_.is_computed[name] = computes;
    made_.model.layers.push_back(layer(name, std::move(operation), std::move(inputs)));
    made_.model.layers.back().frozen = frozen;
    tensors_.push_back(name);
  }

  void append_concat(const std::string& name, const std::vector<std::string>& inputs) {
    Shape output = made_.model.input;
    output.channels = 0;
    for (const std::string& input : inputs) output.channels += made_.shapes[input].channels;
    append(name, Concat{}, inputs, output, 0, false);
  }

  void append_any(const std::string& name) {
    const std::string input = any_tensor();
    const Shape shape = made_.shapes[input];
    switch (pick(0, 4)) {
      case 0:
      case 1: {
        const int64_t out = pick(1, 6);
        return append(name, conv(out, 3, 1, 1), {input}, {out, shape.height, shape.width}, out * (shape.channels * 9 + 1), true);
      }
      case 2: return append(name, BatchNorm{}, {input}, shape, 2 * shape.channels, false);
      case 3: return append(name, Activation{}, {input}, shape, 0, false);
      default: {
        const std::string other = any_tensor();
        if (made_.shapes[other] == shape && pick(0, 1) == 0) return append(name, Add{}, {input, other}, shape, 0, false);
        return append_concat(name, {input, other});
      }
    }
  }

  void shuffle() {
    const auto order = shuffled_indices(static_cast<int64_t>(made_.model.layers.size()), 3, static_cast<uint64_t>(pick(0, 1 << 20)));
    std::vector<Layer> layers;
    for (const int64_t index : order) layers.push_back(made_.model.layers[static_cast<size_t>(index)]);
    made_.model.layers = std::move(layers);
  }

  Philox draw_;
  uint64_t next_ = 0;
  RandomModel made_;
  std::vector<std::string> tensors_;
  std::set<std::string> read_;
};

// The definition: again and again the first layer of the document whose inputs are all there.
std::vector<std::string> order_by_definition(const Model& model) {
  std::vector<std::string> order;
  std::set<std::string> there{"input"};
  while (order.size() < model.layers.size())
    for (const Layer& candidate : model.layers) {
      const bool ready =
          std::all_of(candidate.inputs.begin(), candidate.inputs.end(), [&](const auto& input) { return there.contains(input); });
      if (!ready || there.contains(candidate.name)) continue;
      there.insert(candidate.name);
      order.push_back(candidate.name);
      break;
    }
  return order;
}

class RandomGraphs : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, HaveTheirProperties) {
  for (uint64_t seed = GetParam() * 100; seed < GetParam() * 100 + 100; ++seed) {
    const RandomModel made = Maker(seed).make();
    const Graph graph(made.model);
    const int64_t count = static_cast<int64_t>(graph.nodes().size());
    ASSERT_EQ(names_of(graph), order_by_definition(made.model)) << seed;
    ASSERT_EQ(graph.loss(), count - 1) << seed;

    int64_t parameters = 0;
    for (int64_t index = 0; index < count; ++index) {
      const Node& node = graph.node(index);
      // Inputs lie before, are those of the document, and know their consumer; nobody else does.
      ASSERT_EQ(node.inputs.size(), node.layer.inputs.size());
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        ASSERT_LT(node.inputs[i], index) << seed;
        ASSERT_EQ(graph.name_of(node.inputs[i]), node.layer.inputs[i]) << seed;
        ASSERT_EQ(node.input_shapes[i], graph.shape_of(node.inputs[i])) << seed;
      }
      for (int64_t other = 0; other < count; ++other) {
        const bool reads = std::count(node.inputs.begin(), node.inputs.end(), other) > 0;
        ASSERT_EQ(std::count(graph.node(other).consumers.begin(), graph.node(other).consumers.end(), index), reads ? 1 : 0) << seed;
      }
      ASSERT_TRUE(std::is_sorted(node.consumers.begin(), node.consumers.end())) << seed;

      ASSERT_EQ(node.output, made.shapes.at(node.layer.name)) << seed << " " << node.layer.name;
      ASSERT_EQ(node.computes, made.is_computed.at(node.layer.name)) << seed;
      ASSERT_EQ(node.error_needed, made.error_is_needed.contains(node.layer.name)) << seed << " " << node.layer.name;
      const bool reader = std::any_of(node.layer.inputs.begin(), node.layer.inputs.end(),
                                      [&](const std::string& input) { return made.error_is_needed.contains(input); });
      ASSERT_EQ(node.input_error_needed, reader) << seed;
      for (const ParameterSpec& parameter : node.parameters)
        if (parameter.trained) parameters += parameter.elements();
    }
    ASSERT_EQ(parameters, made.parameters) << seed;
    ASSERT_EQ(graph.parameter_count(), made.parameters) << seed;

    // Groups hold every layer once, in ascending order of heads, and never read from a later group.
    std::set<int64_t> grouped;
    int64_t last_head = -1;
    for (size_t g = 0; g < graph.groups().size(); ++g) {
      const LayerGroup& group = graph.groups()[g];
      ASSERT_GT(group.head, last_head) << seed;
      last_head = group.head;
      const Node& head = graph.node(group.head);
      const bool input_only = std::all_of(head.inputs.begin(), head.inputs.end(), [](int64_t input) { return input == kNetworkInput; });
      ASSERT_TRUE(head.computes || input_only) << seed;
      ASSERT_TRUE(std::is_sorted(group.after.begin(), group.after.end())) << seed;
      std::vector<int64_t> members = group.after;
      members.push_back(group.head);
      for (const int64_t member : members) {
        ASSERT_TRUE(grouped.insert(member).second) << seed;
        ASSERT_EQ(graph.node(member).group, static_cast<int64_t>(g)) << seed;
        if (member != group.head) {
          ASSERT_FALSE(graph.node(member).computes) << seed;
        }
        for (const int64_t input : graph.node(member).inputs)
          if (input != kNetworkInput) {
            ASSERT_LE(graph.node(input).group, static_cast<int64_t>(g)) << seed;
          }
      }
    }
    ASSERT_EQ(static_cast<int64_t>(grouped.size()), count) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range<uint64_t>(0, 10));

TEST(LargeGraph, IsBuiltInMoreOrLessLinearTime) {
  std::vector<Layer> layers;
  for (int i = 0; i < 20000; ++i)
    layers.push_back(layer(fmt::format("n{}", i), Activation{}, {i == 0 ? "input" : fmt::format("n{}", i - 1)}));
  std::reverse(layers.begin(), layers.end());
  const Graph graph(model_of({4, 8, 8}, layers));
  EXPECT_EQ(graph.node(19999).layer.name, "n19999");
  EXPECT_EQ(graph.index_of("n777"), 777);
}

}  // namespace
}  // namespace millrace
