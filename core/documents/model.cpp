#include "core/documents/model.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/files.h"
#include "core/documents/model_fields.h"
#include "model.pb.h"

namespace millrace {
namespace {

std::string_view input_before(const Model& model, size_t layer) {
  return layer == 0 ? kInputName : std::string_view(model.layers[layer - 1].name);
}

bool has_fields(const Operation& operation) {
  return std::visit(
      []<typename T>(const T& o) {
        if constexpr (requires { o.has_fields(); }) return o.has_fields();
        return true;
      },
      operation);
}

// The operation called so, as its empty message reads. Every field of the oneof has one: tests/core/operation holds them together.
const Operation& operation_called(std::string_view name) {
  const auto found = std::ranges::find(catalogue(), name, [](const Operation& operation) { return name_of(operation); });
  MILLRACE_CHECK(found != catalogue().end(), "the model document has an operation {}, and the catalogue has none", name);
  return *found;
}

}  // namespace

namespace text {

void Codec<Layer>::read(const Message& message, Layer& layer, const Path& where) {
  FieldReader<Layer> reader(message, layer, where);
  Fields<Layer>::visit(reader);
  const FieldDescriptor* field = chosen(message, "operation");
  if (field == nullptr) where.fail("layer \"{}\" has no operation; add one, for example relu {{}}", layer.name);
  layer.operation = operation_called(field->name());
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
