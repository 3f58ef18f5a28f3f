// Models fitted to sequences: steps, features, vocabulary and the form of the labels.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "core/base/error.h"
#include "core/graph/adapt.h"
#include "core/graph/adapt_head.h"
#include "core/graph/graph.h"
#include "core/graph/zoo.h"

namespace millrace {
namespace {

constexpr int64_t kBlank = 0;  // of the data's rows of labels

std::string_view words_for(InputKind kind) {
  switch (kind) {
    case InputKind::kImage: return "images";
    case InputKind::kTokens: return "sequences of tokens";
    case InputKind::kFeatures: return "sequences of features";
  }
  return "";
}

std::string_view words_for(LabelForm labels) {
  switch (labels) {
    case LabelForm::kOne: return "one label per sample";
    case LabelForm::kPerStep: return "a label at every step";
    case LabelForm::kRow: return "rows of labels without places in time";
  }
  return "";
}

std::string words_for(const DataForm& data) {
  const std::string lengths = fmt::format("{}{} steps", data.lengths_differ ? "up to " : "", data.shape.height);
  if (data.kind == InputKind::kTokens)
    return fmt::format("sequences of tokens below {}, {}, with {}", data.vocabulary, lengths, words_for(data.labels));
  return fmt::format("sequences of {} feature{} a step, {}, with {}", data.shape.channels, data.shape.channels == 1 ? "" : "s", lengths,
                     words_for(data.labels));
}

// The data in the layout of the model: a step's features are channels, or the columns of one channel.
Shape input_of(const Model& model, const DataForm& data) {
  if (model.input.channels == 1 && model.input.width > 1) return {1, data.shape.height, data.shape.channels};
  return data.shape;
}

std::string loss_obstacle(const Graph& graph, const DataForm& data) {
  const Shape& scores = graph.shape_of(graph.scores());
  const Operation* loss = graph.loss() < 0 ? nullptr : &graph.node(graph.loss()).layer.operation;
  const auto* ctc = loss == nullptr ? nullptr : std::get_if<CtcLoss>(loss);
  if (data.labels == LabelForm::kRow) {
    if (loss != nullptr && ctc == nullptr) return fmt::format("such labels take ctc_loss at the end, not {}", name_of(*loss));
    if (ctc != nullptr && ctc->blank != kBlank) return fmt::format("its ctc_loss has blank {}, the data {}", ctc->blank, kBlank);
    return scores.width == 1 ? "" : fmt::format("its scores are {}; a step's scores are one column", text_of(scores));
  }
  if (ctc != nullptr) return "ctc_loss takes rows of labels; end it with softmax_cross_entropy";
  if (data.labels == LabelForm::kOne && scores.plane() != 1)
    return fmt::format("it scores {} places of a sample; put last_step in front of its last dense layer", scores.plane());
  if (data.labels == LabelForm::kPerStep && (scores.width != 1 || scores.height != data.shape.height))
    return fmt::format("it scores {} of {} steps; leave out what takes steps together (last_step, pooling, strides)", scores.plane(),
                       data.shape.height);
  return "";
}

// Layers that mix what lies behind a short sample's end into its scores.
std::string length_obstacle(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (traits_of(node.layer.operation).rows == Rows::kAll && node.input_shapes[0].height > 1)
      return fmt::format("layer \"{}\" takes all rows of every sample, but samples end at different steps; use last_step instead",
                         node.layer.name);
  }
  return "";
}

struct Attempt {
  AdaptedModel adapted;
  std::string obstacle;  // why it does not fit; empty when it does
};

Attempt attempt(const Model& model, const DataForm& data) {
  Attempt result{{model, {}, {}}, ""};
  if (model.input_kind != data.kind) {
    result.obstacle = fmt::format("it takes {}", words_for(model.input_kind));
    return result;
  }
  Model& fitted = result.adapted.model;
  std::vector<std::string>& notes = result.adapted.notes;
  fitted.input = input_of(model, data);
  result.adapted.transform.output = fitted.input;
  if (fitted.input.height != model.input.height)
    notes.push_back(fmt::format("the network takes {} steps instead of {}", fitted.input.height, model.input.height));
  if (const int64_t before = model.input.channels * model.input.width; data.shape.channels != before)
    notes.push_back(fmt::format("the network takes {} features a step instead of {}", data.shape.channels, before));
  for (Layer& layer : fitted.layers) {
    auto* const embedding = std::get_if<Embedding>(&layer.operation);
    if (embedding == nullptr || data.kind != InputKind::kTokens || embedding->vocabulary == data.vocabulary) continue;
    notes.push_back(fmt::format("layer \"{}\" knows {} tokens instead of {}{}", layer.name, data.vocabulary, embedding->vocabulary,
                                layer.frozen ? ", and is no longer frozen" : ""));
    embedding->vocabulary = data.vocabulary;
    layer.frozen = false;
  }
  try {
    const Graph graph(fitted);
    result.obstacle = loss_obstacle(graph, data);
    if (result.obstacle.empty() && data.lengths_differ) result.obstacle = length_obstacle(graph);
    if (result.obstacle.empty()) replace_head(result.adapted, data.classes);
  } catch (const Error& error) {
    result.obstacle = error.message();
  }
  return result;
}

std::string fitting_models(const DataForm& data) {
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> names;
  for (const std::string& name : zoo_names())
    if (names.size() < kMostNamed && attempt(zoo_model(name), data).obstacle.empty()) names.push_back(name);
  return names.empty() ? "" : fmt::format("; models of the zoo that take this data: {}", fmt::join(names, ", "));
}

}  // namespace

AdaptedModel adapt(const Model& model, const DataForm& data) {
  if (data.kind == InputKind::kImage) return adapt(model, data.shape, data.classes);
  const bool tokens = data.kind == InputKind::kTokens;
  if (data.shape.channels < 1 || data.shape.height < 1 || data.shape.width != 1 || data.classes < 1 ||
      (tokens && (data.vocabulary < 1 || data.shape.channels != 1)))
    fail(ErrorCode::kMismatch, "the data is {} with {} classes and {} tokens; there is nothing to learn", text_of(data.shape), data.classes,
         data.vocabulary);
  const Graph original(model);  // a model that makes no sense by itself is refused as such
  Attempt result = attempt(model, data);
  if (!result.obstacle.empty())
    fail(ErrorCode::kMismatch, "model \"{}\" does not fit the data, {}: {}{}", model.name, words_for(data), result.obstacle,
         fitting_models(data));
  return std::move(result.adapted);
}

}  // namespace millrace
