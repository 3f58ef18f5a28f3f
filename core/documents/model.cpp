#include "core/documents/model.h"

#include "core/base/files.h"
#include "core/documents/model_fields.h"
#include "model.pb.h"

namespace millrace {
namespace {

// One of each kind, as an empty message reads.
const std::vector<Operation>& prototypes() {
  static const std::vector<Operation> all = {
      Conv2d{},
      Dense{},
      Pool2d{.kind = PoolKind::kMax},
      Pool2d{.kind = PoolKind::kAverage},
      GlobalPool{.kind = PoolKind::kMax},
      GlobalPool{.kind = PoolKind::kAverage},
      Activation{.kind = ActivationKind::kRelu},
      Activation{.kind = ActivationKind::kLeakyRelu},
      Activation{.kind = ActivationKind::kSigmoid},
      Activation{.kind = ActivationKind::kTanh},
      BatchNorm{},
      LocalResponseNorm{},
      Dropout{},
      Add{},
      Concat{},
      Flatten{},
      SoftmaxCrossEntropy{},
      Recurrent{.cell = CellKind::kLstm},
      Recurrent{.cell = CellKind::kGru},
      Recurrent{.cell = CellKind::kVanillaRelu},
      Recurrent{.cell = CellKind::kVanillaTanh},
      Embedding{},
      ToSequence{},
      LastStep{},
      CtcLoss{},
  };
  return all;
}

struct OperationName {
  std::string_view operator()(const Conv2d&) const { return "conv2d"; }
  std::string_view operator()(const Dense&) const { return "dense"; }
  std::string_view operator()(const Pool2d& pool) const { return pool.kind == PoolKind::kMax ? "max_pool" : "average_pool"; }
  std::string_view operator()(const GlobalPool& pool) const {
    return pool.kind == PoolKind::kMax ? "global_max_pool" : "global_average_pool";
  }
  std::string_view operator()(const Activation& activation) const {
    switch (activation.kind) {
      case ActivationKind::kRelu: return "relu";
      case ActivationKind::kLeakyRelu: return "leaky_relu";
      case ActivationKind::kSigmoid: return "sigmoid";
      case ActivationKind::kTanh: return "tanh";
    }
    return "unknown";
  }
  std::string_view operator()(const BatchNorm&) const { return "batch_norm"; }
  std::string_view operator()(const LocalResponseNorm&) const { return "local_response_norm"; }
  std::string_view operator()(const Dropout&) const { return "dropout"; }
  std::string_view operator()(const Add&) const { return "add"; }
  std::string_view operator()(const Concat&) const { return "concat"; }
  std::string_view operator()(const Flatten&) const { return "flatten"; }
  std::string_view operator()(const SoftmaxCrossEntropy&) const { return "softmax_cross_entropy"; }
  std::string_view operator()(const Recurrent& cell) const {
    switch (cell.cell) {
      case CellKind::kLstm: return "lstm";
      case CellKind::kGru: return "gru";
      case CellKind::kVanillaRelu: return "rnn_relu";
      case CellKind::kVanillaTanh: return "rnn_tanh";
    }
    return "unknown";
  }
  std::string_view operator()(const Embedding&) const { return "embedding"; }
  std::string_view operator()(const ToSequence&) const { return "to_sequence"; }
  std::string_view operator()(const LastStep&) const { return "last_step"; }
  std::string_view operator()(const CtcLoss&) const { return "ctc_loss"; }
};

std::string_view input_before(const Model& model, size_t layer) {
  return layer == 0 ? kInputName : std::string_view(model.layers[layer - 1].name);
}

bool has_fields(const Operation& operation) {
  const auto* activation = std::get_if<Activation>(&operation);
  return activation == nullptr || activation->kind == ActivationKind::kLeakyRelu;
}

}  // namespace

std::string text_of(const Shape& shape) { return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width); }

std::string_view name_of(const Operation& operation) { return std::visit(OperationName(), operation); }

namespace text {

void Codec<Layer>::read(const Message& message, Layer& layer, const Path& where) {
  FieldReader<Layer> reader(message, layer, where);
  Fields<Layer>::visit(reader);
  const FieldDescriptor* field = chosen(message, "operation");
  if (field == nullptr) where.fail("layer \"{}\" has no operation; add one, for example relu {{}}", layer.name);
  for (const Operation& prototype : prototypes())
    if (name_of(prototype) == field->name()) layer.operation = prototype;
  if (!has_fields(layer.operation)) return;
  const Message& inner = get_message(message, *field, kSingle);
  const Path inside(where, field->name());
  std::visit([&]<typename T>(T& operation) { Codec<T>::read(inner, operation, inside); }, layer.operation);
}

void Codec<Layer>::write(const Layer& layer, Message& message) {
  FieldWriter<Layer> writer(layer, message);
  Fields<Layer>::visit(writer);
  Message& inner = put_message(message, field_of(message, name_of(layer.operation)));
  if (has_fields(layer.operation)) std::visit([&]<typename T>(const T& operation) { Codec<T>::write(operation, inner); }, layer.operation);
}

void Codec<Layer>::check(const Layer& layer, const Path& where) {
  FieldChecker<Layer> checker(layer, where);
  Fields<Layer>::visit(checker);
  Fields<Layer>::check(layer, where);
  const Path inside(where, name_of(layer.operation));
  std::visit([&]<typename T>(const T& operation) { Codec<T>::check(operation, inside); }, layer.operation);
}

void Codec<Model>::read(const Message& message, Model& model, const Path& where) {
  FieldReader<Model> reader(message, model, where);
  Fields<Model>::visit(reader);
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].inputs.empty()) model.layers[i].inputs.emplace_back(input_before(model, i));
}

void Codec<Model>::write(const Model& model, Message& message) {
  Model shortened = model;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    std::vector<std::string>& inputs = shortened.layers[i].inputs;
    if (inputs.size() == 1 && inputs[0] == input_before(model, i)) inputs.clear();
  }
  FieldWriter<Model> writer(shortened, message);
  Fields<Model>::visit(writer);
}

void Codec<Model>::check(const Model& model, const Path& where) {
  FieldChecker<Model> checker(model, where);
  Fields<Model>::visit(checker);
  Fields<Model>::check(model, where);
}

}  // namespace text

Model parse_model(std::string_view text, std::string_view origin) {
  const text::Path document(origin, ErrorCode::kMalformed);
  documents::Model message;
  text::parse_text(text, document, text::model_steps(), message);
  Model model;
  text::Codec<Model>::read(message, model, document);
  text::Codec<Model>::check(model, document);
  return model;
}

std::string text_of(const Model& model) {
  documents::Model message;
  message.set_version(text::current_version(text::model_steps()));
  text::Codec<Model>::write(model, message);
  return text::print_text(message);
}

Model load_model(const std::filesystem::path& path) { return parse_model(text::read_document(path), path.string()); }

void save(const Model& model, const std::filesystem::path& path) { write_atomically(path, text_of(model)); }

}  // namespace millrace
