#include "core/exchange/keras_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "core/base/error.h"
#include "core/base/files.h"

#ifdef MILLRACE_HAS_HDF5
#include "core/data/zip_file.h"
#include "core/exchange/hdf5_file.h"
#include "core/exchange/keras_layers.h"
#endif

namespace millrace {

#ifdef MILLRACE_HAS_HDF5
namespace {

using nlohmann::json;

constexpr size_t kMostText = 64 << 20;
constexpr uint64_t kMostWeights = uint64_t{4} << 30;
constexpr size_t kMostLayers = 10'000;
// What a network of open length is said to have; the data's own length replaces it.
constexpr int64_t kAssumedSteps = 100;

// A configuration nests its layers, the layers their initialisers; nothing nests a hundred deep.
json parse_config(std::string_view text, std::string_view what) {
  static constexpr int kDeepest = 100;
  if (text.size() > kMostText) fail(ErrorCode::kMalformed, "{}: {} bytes of JSON", what, text.size());
  try {
    return json::parse(text, [](int depth, json::parse_event_t, json&) {
      if (depth > kDeepest) fail(ErrorCode::kMalformed, "JSON that nests more than {} deep", kDeepest);
      return true;
    });
  } catch (const json::exception&) {
    fail(ErrorCode::kMalformed, "{}: no JSON, or damaged", what);
  }
}

// One layer of a functional network: which layers it reads.
std::vector<std::string> readers_of(const json& layer, const std::string& who) {
  std::vector<std::string> names;
  const auto found = layer.find("inbound_nodes");
  if (found == layer.end() || !found->is_array() || found->empty()) return names;
  if (found->size() > 1)
    fail(ErrorCode::kUsage, "layer \"{}\": used {} times, layers that are shared have no counterpart here", who, found->size());
  const auto damaged = [&] { fail(ErrorCode::kMalformed, "layer \"{}\": what it reads (inbound_nodes) is damaged", who); };
  const json& node = found->front();
  if (node.is_array()) {  // Keras 2: [[name, node, tensor, {}], ...]
    for (const json& one : node) {
      if (!one.is_array() || one.empty() || !one.front().is_string()) damaged();
      if (one.size() > 3 && one[3].is_object() && !one[3].empty())
        fail(ErrorCode::kUsage, "layer \"{}\": it is called with arguments ({}), which have no counterpart here", who, one[3].dump());
      names.push_back(one.front().get<std::string>());
    }
    return names;
  }
  // Keras 3: {"args": [tensor or list of tensors], "kwargs": {}}
  if (!node.is_object() || !node.contains("args") || !node["args"].is_array()) damaged();
  const auto take = [&](const json& tensor) {
    if (!tensor.is_object() || !tensor.contains("config") || !tensor["config"].contains("keras_history") ||
        !tensor["config"]["keras_history"].is_array() || tensor["config"]["keras_history"].empty() ||
        !tensor["config"]["keras_history"][0].is_string())
      damaged();
    names.push_back(tensor["config"]["keras_history"][0].get<std::string>());
  };
  if (node["args"].size() != 1)
    fail(ErrorCode::kUsage, "layer \"{}\": it is called with {} arguments (initial states?), one is read", who, node["args"].size());
  const json& argument = node["args"][0];
  if (argument.is_array())
    for (const json& tensor : argument) take(tensor);
  else
    take(argument);
  return names;
}

// [null, 28, 28, 1] of the input layer, or of the first layer in older files.
const json* batch_shape_of(const json& layer) {
  for (const char* const name : {"batch_shape", "batch_input_shape"})
    if (layer.contains("config") && layer["config"].is_object() && layer["config"].contains(name) && layer["config"][name].is_array())
      return &layer["config"][name];
  return nullptr;
}

void set_input(const json& batch_shape, const std::string& first_class, NetworkWriter& net) {
  std::vector<int64_t> extents;
  for (size_t i = 1; i < batch_shape.size(); ++i) {
    const json& one = batch_shape[i];
    if (!one.is_null() && (!one.is_number_integer() || one.get<double>() < 1 || one.get<double>() > INT32_MAX))
      fail(ErrorCode::kMalformed, "the input has shape {}", batch_shape.dump());
    extents.push_back(one.is_null() ? -1 : one.get<int64_t>());
  }
  const bool tokens = extents.size() == 1 && first_class == "Embedding";
  const bool steps = tokens || extents.size() == 2;
  if (steps && extents[0] < 0) {
    extents[0] = kAssumedSteps;
    net.note(fmt::format("the number of steps is open; {} are assumed until data says otherwise", kAssumedSteps));
  }
  if (std::ranges::count(extents, -1) > 0)
    fail(ErrorCode::kUsage, "the input has shape {}; only the number of samples and of steps may be open. Build the network with numbers",
         batch_shape.dump());
  if (tokens) return net.set_input(InputKind::kTokens, {1, extents[0], 1});
  if (extents.size() == 1) return net.set_input(InputKind::kImage, {extents[0], 1, 1});
  if (extents.size() == 2) return net.set_input(InputKind::kFeatures, {extents[1], extents[0], 1});
  if (extents.size() == 3) return net.set_input(InputKind::kImage, {extents[2], extents[0], extents[1]});
  fail(ErrorCode::kUsage, "the input has shape {}; vectors, steps of features and images are read", batch_shape.dump());
}

struct Architecture {
  const json* layers = nullptr;
  bool sequential = false;
  std::string name, output;
};

std::string one_end(const json& config, const char* which) {
  const json* ends = config.contains(which) ? &config[which] : nullptr;
  if (ends == nullptr || !ends->is_array() || ends->empty()) fail(ErrorCode::kMalformed, "the configuration has no {}", which);
  // [["name", 0, 0]] or, newer and for one, ["name", 0, 0]
  if (ends->front().is_string()) return ends->front().get<std::string>();
  if (ends->size() > 1) fail(ErrorCode::kUsage, "{} {}; networks with one are read", ends->size(), which);
  if (!ends->front().is_array() || ends->front().empty() || !ends->front()[0].is_string())
    fail(ErrorCode::kMalformed, "the configuration's {} are damaged", which);
  return ends->front()[0].get<std::string>();
}

Architecture architecture_of(const json& document) {
  if (!document.is_object() || !document.contains("class_name") || !document["class_name"].is_string() || !document.contains("config"))
    fail(ErrorCode::kMalformed, "no configuration of a Keras model");
  const std::string type = document["class_name"].get<std::string>();
  const json& config = document["config"];
  Architecture found;
  if (config.is_object() && config.contains("name") && config["name"].is_string()) found.name = config["name"].get<std::string>();
  if (type == "Sequential") {
    found.sequential = true;
    found.layers = config.is_array() ? &config : config.is_object() && config.contains("layers") ? &config["layers"] : nullptr;
  } else if (type == "Functional" || type == "Model") {
    found.layers = config.is_object() && config.contains("layers") ? &config["layers"] : nullptr;
    if (found.layers != nullptr) {
      one_end(config, "input_layers");
      found.output = one_end(config, "output_layers");
    }
  } else {
    fail(ErrorCode::kUsage, "a model of class {}: only Sequential and functional ones say what they compute", type);
  }
  if (found.layers == nullptr || !found.layers->is_array() || found.layers->empty())
    fail(ErrorCode::kMalformed, "the configuration lists no layers");
  if (found.layers->size() > kMostLayers) fail(ErrorCode::kUsage, "{} layers, at most {} are read", found.layers->size(), kMostLayers);
  return found;
}

void refuse_version(const std::string& version) {
  if (version.empty()) fail(ErrorCode::kUsage, "no keras_version, as files of Keras 1 have none; save it with Keras 2 or 3");
  if (version.starts_with("1.") || version.starts_with("0."))
    fail(ErrorCode::kUsage, "written by Keras {}, whose layers have other weights; save it with Keras 2 or 3", version);
}

Imported convert(const json& document, const std::string& version, const KerasWeights& weights, std::string source) {
  refuse_version(version);
  const Architecture architecture = architecture_of(document);
  NetworkWriter net(architecture.name, std::move(source));
  KerasContext context{net, weights, version.starts_with("2.") ? 2 : 3};
  std::map<std::string, KerasValue> values;
  std::map<std::string, int64_t> of_class;
  const json& layers = *architecture.layers;
  std::string first_class;
  for (const json& one : layers)
    if (first_class.empty() && one.is_object() && one.contains("class_name") && one["class_name"].is_string() &&
        one["class_name"] != "InputLayer")
      first_class = one["class_name"].get<std::string>();

  bool has_input = false;
  std::string last;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string type = layers[i].is_object() && layers[i].contains("class_name") && layers[i]["class_name"].is_string()
                                 ? layers[i]["class_name"].get<std::string>()
                                 : "";
    const KerasLayer layer(layers[i], of_class[type]++);
    if (values.contains(layer.name())) fail(ErrorCode::kMalformed, "two layers are called \"{}\"", layer.name());
    if (!has_input) {
      const json* const shape = batch_shape_of(layers[i]);
      if (shape == nullptr)
        fail(ErrorCode::kUsage, "{}: the network does not say the shape of its input; build it before it is saved", layer.who());
      set_input(*shape, first_class, net);
      has_input = true;
      if (layer.class_name() != "InputLayer") values["input"] = {net.input(), {}, false}, last = "input";
    } else if (layer.class_name() == "InputLayer") {
      layer.refuse("a second input; networks with one are read");
    }
    if (layer.class_name() == "InputLayer") {
      values[layer.name()] = {net.input(), {}, false};
      last = layer.name();
      continue;
    }
    std::vector<KerasValue> inputs;
    for (const std::string& name : architecture.sequential ? std::vector<std::string>{last} : readers_of(layers[i], layer.name())) {
      const auto found = values.find(name);
      if (found == values.end()) fail(ErrorCode::kMalformed, "{}: it reads \"{}\", which no layer before it makes", layer.who(), name);
      inputs.push_back(found->second);
    }
    values[layer.name()] = convert_keras_layer(layer, inputs, context);
    last = layer.name();
  }
  const std::string output = architecture.sequential ? last : architecture.output;
  const auto scores = values.find(output);
  if (scores == values.end()) fail(ErrorCode::kMalformed, "the output \"{}\" is made by no layer", output);
  if (scores->second.flattened) fail(ErrorCode::kUsage, "the network ends in a Flatten, whose features lie in another order here");
  Imported imported = net.finish(scores->second.value);
  imported.input_axes = imported.model.input_kind == InputKind::kTokens     ? "NH"
                        : imported.model.input_kind == InputKind::kFeatures ? "NHC"
                        : imported.model.input.plane() == 1                 ? "NC"
                                                                            : "NHWC";
  const Shape& shape = scores->second.value.shape;
  imported.output_axes = shape.plane() == 1 ? "NC" : shape.width == 1 ? "NHC" : "NHWC";
  return imported;
}

std::string text_in(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::string version_in(const json& document) {
  return document.is_object() && document.contains("keras_version") && document["keras_version"].is_string()
             ? document["keras_version"].get<std::string>()
             : "";
}

Imported from_zip(std::span<const std::byte> bytes, const std::string& origin) {
  const ZipFile zip(bytes, origin);
  const json config = parse_config(text_in(zip.read("config.json", kMostText)), "config.json");
  const json metadata = parse_config(text_in(zip.read("metadata.json", kMostText)), "metadata.json");
  const std::string version = version_in(metadata);
  const std::vector<std::byte> stored = zip.read("model.weights.h5", kMostWeights);
  const std::unique_ptr<Hdf5File> file = open_hdf5(stored, "model.weights.h5");
  return convert(config, version, KerasWeights(*file, true, "/layers"),
                 fmt::format("{} (Keras {})", std::filesystem::path(origin).filename().string(), version));
}

Imported from_hdf5(std::span<const std::byte> bytes, const std::string& origin) {
  const std::unique_ptr<Hdf5File> file = open_hdf5(bytes, origin);
  const std::optional<std::string> config = file->text("/", "model_config");
  if (!config)
    fail(ErrorCode::kUsage,
         "no architecture in it (model_config), so it holds weights alone; give the architecture as JSON, and this file as --weights");
  if (!file->has("/model_weights")) fail(ErrorCode::kMalformed, "no group model_weights in it");
  std::string version = file->text("/", "keras_version").value_or("");
  if (version.empty()) version = file->text("/model_weights", "keras_version").value_or("");
  return convert(parse_config(*config, "model_config"), version, KerasWeights(*file, false, "/model_weights"),
                 fmt::format("{} (Keras {})", std::filesystem::path(origin).filename().string(), version));
}

}  // namespace

Imported import_keras(std::string_view architecture, std::span<const std::byte> weights, std::string_view origin) {
  const json document = parse_config(architecture, origin);
  const std::unique_ptr<Hdf5File> file = open_hdf5(weights, "the weights");
  const bool by_class = file->has("/layers");  // Keras 3's .weights.h5
  const std::string base = by_class ? "/layers" : file->has("/model_weights") ? "/model_weights" : "/";
  std::string version = version_in(document);
  if (version.empty()) version = file->text(by_class ? "/" : base, "keras_version").value_or("");
  return convert(document, version, KerasWeights(*file, by_class, base),
                 fmt::format("{} (Keras {})", std::filesystem::path(origin).filename().string(), version));
}

Imported import_keras(const std::filesystem::path& model, const std::filesystem::path& weights) {
  const bool is_json = model.extension() == ".json";
  if (is_json && weights.empty())
    fail(ErrorCode::kUsage, "{}: an architecture without weights; give them as --weights FILE.h5", model.string());
  if (!is_json && !weights.empty()) fail(ErrorCode::kUsage, "{} holds its weights itself; leave --weights out", model.string());
  const std::vector<std::byte> bytes = read_bytes(model);
  try {
    if (is_json) return import_keras(text_in(bytes), read_bytes(weights), model.string());
    const bool is_zip = bytes.size() > 1 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
    return is_zip ? from_zip(bytes, model.string()) : from_hdf5(bytes, model.string());
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(model.string())) throw;
    throw error.within(model.string());
  }
}
#else
Imported import_keras(std::string_view, std::span<const std::byte>, std::string_view origin) {
  fail(ErrorCode::kUnavailable, "{}: this build reads nothing of Keras; install libhdf5-dev and configure again", origin);
}

Imported import_keras(const std::filesystem::path& model, const std::filesystem::path&) {
  fail(ErrorCode::kUnavailable, "{}: this build reads nothing of Keras; install libhdf5-dev and configure again", model.string());
}
#endif

}  // namespace millrace
