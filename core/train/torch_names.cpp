#include "core/train/torch_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "core/train/segment_state.h"

namespace millrace {
namespace {

// How many steps of training saw batch norm's statistics: PyTorch stores it, and nothing depends on it.
constexpr std::string_view kBatchesTracked = ".num_batches_tracked";

bool is_vgg(const Model& model) { return model.name.starts_with("vgg"); }

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMostNamed = 12;
  const size_t shown = std::min(kMostNamed, names.size());
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
                     shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : "");
}

}  // namespace

std::map<std::string, std::string> torch_names(const Model& model) {
  std::map<std::string, std::string> names;
  if (!is_vgg(model) && model.name != "alexnet-torch") return names;
  const auto add = [&](const std::string& layer, const std::string& place) {
    for (const char* const tensor : {".weight", ".bias"}) names[layer + tensor] = place + tensor;
  };
  // Convolutions, activations and poolings are the places of the first list.
  int64_t place = 0;
  for (const Layer& layer : model.layers) {
    if (std::holds_alternative<Flatten>(layer.operation)) break;
    if (std::holds_alternative<Conv2d>(layer.operation)) add(layer.name, fmt::format("features.{}", place));
    ++place;
  }
  // VGG: dense, relu, dropout, ...; AlexNet: dropout, dense, relu, ...
  const bool dropout_first = !is_vgg(model);
  if (std::ranges::find(model.layers, "fc6", &Layer::name) == model.layers.end()) return names;
  add("fc6", dropout_first ? "classifier.1" : "classifier.0");
  add("fc7", dropout_first ? "classifier.4" : "classifier.3");
  add("fc8", "classifier.6");
  return names;
}

TensorMap with_torch_names(const Model& model, TensorMap weights) {
  for (const auto& [ours, theirs] : torch_names(model))
    if (auto tensor = weights.extract(ours); !tensor.empty()) {
      tensor.key() = theirs;
      weights.insert(std::move(tensor));
    }
  return weights;
}

WeightsFit fit_weights(const Graph& graph, TensorMap weights) {
  const std::map<std::string, std::string> theirs = torch_names(graph.model());
  WeightsFit fit;
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      const std::string name = stored_name(node, parameter);
      auto found = weights.find(name);
      if (found == weights.end())
        if (const auto other = theirs.find(name); other != theirs.end()) found = weights.find(other->second);
      if (found == weights.end()) {
        fit.missing.push_back(name);
        continue;
      }
      if (found->second.dimensions != parameter.dimensions)
        fit.misshapen.push_back(
            fmt::format("{} is {}, the model wants [{}]", found->first, text_of(found->second), fmt::join(parameter.dimensions, ", ")));
      else {
        fit.sources[name] = found->first;
        fit.taken[name] = std::move(found->second);
      }
      weights.erase(found);
    }
  for (const auto& [name, tensor] : weights)
    if (!name.ends_with(kBatchesTracked)) fit.superfluous.push_back(name);
  return fit;
}

std::vector<std::string> WeightsFit::notes() const {
  std::vector<std::string> notes;
  if (!missing.empty()) notes.push_back("not among the weights, so drawn from the seed: " + listed(missing));
  if (!misshapen.empty()) notes.push_back("of another shape, so drawn from the seed: " + listed(misshapen));
  if (!superfluous.empty()) notes.push_back("the model has no use for " + listed(superfluous));
  return notes;
}

}  // namespace millrace
