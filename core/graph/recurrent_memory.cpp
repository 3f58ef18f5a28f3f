#include "core/graph/recurrent_memory.h"

#include <fmt/format.h>

#include <limits>
#include <variant>

#include "core/base/error.h"

namespace millrace {
namespace {

constexpr int64_t kBytes = 4;         // fp32
constexpr int64_t kWeightCopies = 3;  // weights, gradients, momentum

int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result))
    fail(ErrorCode::kUsage, "{} times {} bytes are more than can be counted; choose a smaller batch", a, b);
  return result;
}
int64_t sum(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) fail(ErrorCode::kUsage, "more bytes than can be counted; choose a smaller batch");
  return result;
}

// Layers that differ in nothing but their name share a line.
bool alike(const RecurrentLayerMemory& a, const RecurrentLayerMemory& b) {
  return a.features == b.features && a.steps == b.steps && a.weights == b.weights;
}

std::string amount(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} MB", value / 1e6);
  return fmt::format("{:.1f} kB", value / 1e3);
}

}  // namespace

int64_t RecurrentLayerMemory::activation_bytes(int64_t batch) const {
  if (batch < 1) fail(ErrorCode::kUsage, "a batch of {} samples; at least 1 is needed", batch);
  return product(product(product(kBytes, features), batch), steps);
}

int64_t RecurrentMemory::activation_bytes(int64_t batch) const {
  int64_t bytes = 0;
  for (const RecurrentLayerMemory& layer : layers) bytes = sum(bytes, layer.activation_bytes(batch));
  return bytes;
}

int64_t RecurrentMemory::weight_bytes() const {
  int64_t bytes = 0;
  for (const RecurrentLayerMemory& layer : layers) bytes = sum(bytes, layer.weight_bytes());
  return bytes;
}

int64_t RecurrentMemory::total_bytes(int64_t batch) const { return sum(activation_bytes(batch), product(kWeightCopies, weight_bytes())); }

int64_t RecurrentMemory::largest_batch(int64_t budget_bytes) const {
  if (layers.empty()) fail(ErrorCode::kUsage, "the network has no recurrent layer, whose activations could be planned");
  if (budget_bytes < 0) fail(ErrorCode::kUsage, "a budget of {} bytes; memory is 0 or more", budget_bytes);
  const int64_t left = budget_bytes - product(kWeightCopies, weight_bytes());
  return left <= 0 ? 0 : left / activation_bytes(1);
}

RecurrentMemory recurrent_memory(const Graph& graph) {
  RecurrentMemory memory;
  for (const Node& node : graph.nodes()) {
    if (role_of(node.layer.operation) != Role::kRecurrence) continue;
    RecurrentLayerMemory layer{.layer = node.layer.name, .features = node.output.channels, .steps = node.output.height};
    for (const ParameterSpec& parameter : node.parameters) {
      layer.weights += parameter.elements();
      if (parameter.tensor.find("weight_hh") != std::string::npos) layer.recurrent_weights += parameter.elements();
    }
    memory.layers.push_back(std::move(layer));
  }
  return memory;
}

int64_t recorded_gates(CellKind cell) { return gates_of(cell) + (cell == CellKind::kGru ? 1 : 0); }

int64_t kept_elements(const Node& node) {
  const auto* cell = std::get_if<Recurrent>(&node.layer.operation);
  if (cell == nullptr) return 0;
  int64_t of_step = recorded_gates(cell->cell) * cell->hidden + cell->features();
  if (cell->cell == CellKind::kLstm) of_step += cell->hidden;
  if (cell->projection > 0) of_step += cell->hidden + cell->features();
  return of_step * cell->directions() * node.output.height;
}

std::string text_of(const RecurrentMemory& memory, int64_t batch, int64_t budget_bytes) {
  if (memory.layers.empty()) return "";
  std::string text = fmt::format("recurrent layers at batch {} (modelled: 4 bytes x features x batch x steps each)", batch);
  for (size_t first = 0; first < memory.layers.size();) {
    size_t end = first + 1;
    while (end < memory.layers.size() && alike(memory.layers[first], memory.layers[end])) ++end;
    const RecurrentLayerMemory& layer = memory.layers[first];
    const auto count = static_cast<int64_t>(end - first);
    text += fmt::format("\n  {:>3} x {:>5} features, {:>5} steps: {:>10} activations each, {:>10} recurrent weights ({}{})", count,
                        layer.features, layer.steps, amount(layer.activation_bytes(batch)), amount(layer.recurrent_weight_bytes()),
                        layer.layer, count > 1 ? " to " + memory.layers[end - 1].layer : "");
    first = end;
  }
  text += fmt::format("\n  together {} of activations, {} of weights; {} with gradients and momentum",
                      amount(memory.activation_bytes(batch)), amount(memory.weight_bytes()), amount(memory.total_bytes(batch)));
  if (budget_bytes > 0) {
    const int64_t largest = memory.largest_batch(budget_bytes);
    text += largest > 0
                ? fmt::format("\n  {} hold a batch of {} at most", amount(budget_bytes), largest)
                : fmt::format("\n  {} do not hold a single sample, which takes {}", amount(budget_bytes), amount(memory.total_bytes(1)));
  }
  return text;
}

}  // namespace millrace
