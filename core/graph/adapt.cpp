#include "core/graph/adapt.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/graph/adapt_head.h"
#include "core/graph/graph.h"
#include "core/graph/zoo.h"

namespace millrace {

namespace {

std::string size_text(const Shape& shape) { return fmt::format("{}x{}", shape.height, shape.width); }

bool channel_repeats(const Shape& data, const Shape& wanted) { return data.channels == 1 && wanted.channels == 3; }

// Rule 1: how the data becomes `wanted`, if it does.
std::optional<DataTransform> transform_to(const Shape& wanted, const Shape& data) {
  if (data.channels != wanted.channels && !channel_repeats(data, wanted)) return std::nullopt;
  const int64_t scale = std::min(wanted.height / data.height, wanted.width / data.width);
  if (scale < 1) return std::nullopt;
  const int64_t rows = wanted.height - scale * data.height;
  const int64_t columns = wanted.width - scale * data.width;
  if (rows > 2 * kMostPadding || columns > 2 * kMostPadding) return std::nullopt;
  return DataTransform{.pad_top = rows / 2,
                       .pad_left = columns / 2,
                       .pad_bottom = rows - rows / 2,
                       .pad_right = columns - columns / 2,
                       .scale = scale,
                       .repeat_channels = data.channels != wanted.channels,
                       .output = wanted};
}

// Rule 2: why `model` cannot take `input` with the weights it has; empty when it can.
std::string obstacle_to(const Model& model, const Shape& input) {
  try {
    const Graph own(model);
    Model resized = model;
    resized.input = input;
    const Graph other(std::move(resized));
    for (size_t i = 0; i < own.nodes().size(); ++i) {
      const Node& before = own.nodes()[i];
      const Node& after = other.nodes()[i];
      for (size_t p = 0; p < before.parameters.size(); ++p)
        if (before.parameters[p].dimensions != after.parameters[p].dimensions)
          return fmt::format("layer \"{}\" fixes the size: its {} would be {} instead of {}", before.layer.name,
                             before.parameters[p].tensor, fmt::join(after.parameters[p].dimensions, "x"),
                             fmt::join(before.parameters[p].dimensions, "x"));
    }
    const Shape& scores = own.shape_of(own.scores());
    const Shape& other_scores = other.shape_of(other.scores());
    if (model.input_kind == InputKind::kImage && scores != other_scores)
      return fmt::format("its scores would be {} instead of {}", text_of(other_scores), text_of(scores));
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

struct Fit {
  DataTransform transform;
  std::vector<std::string> notes;
  std::string obstacle;  // why there is none; empty when there is
};

Fit fit_sequence(const Model& model, const Shape& data) {
  Fit fit{.transform = {.output = data}, .notes = {}, .obstacle = {}};
  if (model.input_kind == InputKind::kTokens) {
    fit.obstacle = "they are no tokens";
    return fit;
  }
  if (data == model.input) return fit;
  if (data.channels != model.input.channels || data.width != model.input.width) {
    fit.obstacle = "the features of a step are not padded or cut";
    return fit;
  }
  fit.obstacle = obstacle_to(model, data);
  fit.notes.push_back(fmt::format("the network takes {} steps instead of {}", data.height, model.input.height));
  return fit;
}

Fit fit_image(const Model& model, const Shape& data) {
  const Shape& wanted = model.input;
  Fit fit;
  if (channel_repeats(data, wanted)) fit.notes.push_back("the grey channel is repeated three times");
  if (const std::optional<DataTransform> transform = transform_to(wanted, data)) {
    fit.transform = *transform;
    const Shape enlarged{wanted.channels, transform->scale * data.height, transform->scale * data.width};
    if (transform->scale > 1)
      fit.notes.push_back(
          fmt::format("images are enlarged {} times, from {} to {}", transform->scale, size_text(data), size_text(enlarged)));
    if (enlarged != wanted)
      fit.notes.push_back(fmt::format("images are padded with zeros from {} to {}", size_text(enlarged), size_text(wanted)));
    return fit;
  }
  if (data.channels != wanted.channels && !channel_repeats(data, wanted)) {
    fit.obstacle = fmt::format("{} channels do not become {}: only one is repeated, to three", data.channels, wanted.channels);
    return fit;
  }
  const Shape taken{wanted.channels, data.height, data.width};
  fit.transform = {.repeat_channels = data.channels != wanted.channels, .output = taken};
  fit.obstacle = obstacle_to(model, taken);
  fit.notes.push_back(
      fmt::format("the network takes {} instead of its own {}; every weight keeps its shape", text_of(taken), text_of(wanted)));
  return fit;
}

Fit fit_to(const Model& model, const Shape& data) {
  return model.input_kind == InputKind::kImage ? fit_image(model, data) : fit_sequence(model, data);
}

// "; models of the zoo that take this data: lenet5, ..." with those that change it least first, or nothing.
std::string fitting_models(const Shape& data) {
  constexpr size_t kMostNamed = 5;
  const double pixels = static_cast<double>(data.plane());
  std::vector<std::pair<double, std::string>> found;  // by how much the image grows
  for (const std::string& name : zoo_names()) {
    const Fit fit = fit_to(zoo_model(name), data);
    if (fit.obstacle.empty()) found.emplace_back(static_cast<double>(fit.transform.output.plane()) / pixels, name);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(found.size(), kMostNamed); ++i) names.push_back(found[i].second);
  return names.empty() ? "" : fmt::format("; models of the zoo that take this data: {}", fmt::join(names, ", "));
}

// What data the model does take, in words.
std::string what_fits(const Model& model) {
  const Shape& wanted = model.input;
  if (model.input_kind == InputKind::kTokens) return "text, text:FILE, or arrays:FILE,layout=ids";
  if (model.input_kind != InputKind::kImage) return fmt::format("sequences of {} features per step", wanted.channels);
  const std::string grey = wanted.channels == 3 ? fmt::format(" or {}", text_of(Shape{1, wanted.height, wanted.width})) : "";
  return fmt::format("{}{}, or smaller images that padding (at most {} a side) or whole-number enlargement brings there", text_of(wanted),
                     grey, kMostPadding);
}

// The dense layer that makes the scores; fails when there is none to replace.
int64_t head_of(const Graph& graph, int64_t classes) {
  int64_t index = graph.scores();
  while (index != kNetworkInput && traits_of(graph.node(index).layer.operation).keeps_channels) index = graph.node(index).inputs[0];
  if (index == kNetworkInput || !std::holds_alternative<Dense>(graph.node(index).layer.operation))
    fail(ErrorCode::kMismatch,
         "model \"{}\" scores {} classes ({} from layer \"{}\"), but the data has {}, and no dense layer feeds the scores that could be "
         "replaced: end the model in a dense layer of {} features",
         graph.model().name, graph.classes(), text_of(graph.shape_of(graph.scores())), graph.name_of(graph.scores()), classes, classes);
  return index;
}

}  // namespace

void replace_head(AdaptedModel& adapted, int64_t classes) {
  const Graph graph(adapted.model);
  if (graph.classes() == classes) return;
  const std::string& name = graph.name_of(head_of(graph, classes));
  const auto head =
      std::find_if(adapted.model.layers.begin(), adapted.model.layers.end(), [&](const Layer& layer) { return layer.name == name; });
  adapted.notes.push_back(fmt::format("the head is replaced: layer \"{}\" gives {} scores instead of {}{}", name, classes, graph.classes(),
                                      head->frozen ? ", and is no longer frozen" : ""));
  std::get<Dense>(head->operation).out_features = classes;
  head->frozen = false;
}

AdaptedModel adapt(const Model& model, const Shape& data_shape, int64_t classes) {
  if (data_shape.channels < 1 || data_shape.height < 1 || data_shape.width < 1 || classes < 1)
    fail(ErrorCode::kMismatch, "the data is {} with {} classes; every one of these must be at least 1", text_of(data_shape), classes);
  const Graph original(model);  // a model that makes no sense by itself is refused as such

  Fit fit = fit_to(model, data_shape);
  const bool tokens = model.input_kind == InputKind::kTokens;
  if (!fit.obstacle.empty())
    fail(ErrorCode::kMismatch, "model \"{}\" takes {}{}, but the data is {}{}: {}; what fits: {}{}", model.name, tokens ? "tokens, " : "",
         text_of(model.input), tokens ? "images, " : "", text_of(data_shape), fit.obstacle, what_fits(model), fitting_models(data_shape));
  AdaptedModel adapted{model, fit.transform, std::move(fit.notes)};
  adapted.model.input = fit.transform.output;
  replace_head(adapted, classes);
  const Graph checked(adapted.model);
  return adapted;
}

}  // namespace millrace
