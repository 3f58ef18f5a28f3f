// Rules between the fields of a model document. What involves several layers, except their names, is Graph's.
#include <unordered_map>

#include "core/documents/model_fields.h"

namespace millrace::text {

void Fields<Shape>::check(const Shape& shape, const Path& where) {
  constexpr int64_t kMostElements = int64_t{1} << 36;
  int64_t elements = 0;
  const bool overflows =
      __builtin_mul_overflow(shape.channels, shape.height, &elements) || __builtin_mul_overflow(elements, shape.width, &elements);
  if (overflows || elements > kMostElements)
    where.fail("{} has more than the {} elements a sample may have", text_of(shape), kMostElements);
}

void Fields<Layer>::check(const Layer& layer, const Path& where) {
  if (layer.name == kInputName) Path(where, "name").fail("\"{}\" means the network's input; rename the layer", layer.name);
  if (layer.inputs.empty()) Path(where, "inputs").fail("\"{}\" reads nothing; name the layers it reads", layer.name);
}

void Fields<Model>::check(const Model& model, const Path& where) {
  if (model.layers.empty()) Path(where, "layers").fail("none given; a model needs at least one");
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const auto [earlier, added] = seen.emplace(model.layers[i].name, i);
    if (!added)
      Path(Path(where, "layers", i), "name")
          .fail("\"{}\" is already the name of layers[{}]; names are unique", model.layers[i].name, earlier->second);
  }
}

}  // namespace millrace::text
