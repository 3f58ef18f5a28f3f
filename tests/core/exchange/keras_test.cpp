#ifdef MILLRACE_HAS_HDF5
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/data/npy.h"
#include "core/exchange/keras_import.h"
#include "tests/core/exchange/run_onnx.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kKeras = fs::path(MILLRACE_SOURCE_DIR) / "tests/core/exchange/keras";

TEST(Keras, SixteenNetworksInFourLayoutsAgreeWithKerasArithmetic) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kKeras))
    if (entry.path().extension() == ".npz") names.insert(entry.path().stem().string());
  ASSERT_EQ(names.size(), 16U);
  for (const std::string& name : names) {
    const std::vector<std::byte> bytes = read_bytes(kKeras / (name + ".npz"));
    const NpzFile expected = parse_npz(bytes, name);
    const NpyArray& x = expected.at("x");
    for (const char* const layout : {".2.h5", ".json", ".3.h5", ".keras"}) {
      SCOPED_TRACE(name + layout);
      const fs::path weights = layout == std::string(".json") ? kKeras / (name + ".weights.h5") : fs::path();
      const Imported imported = import_keras(kKeras / (name + layout), weights);
      const bool other = expected.contains("y_keras_3") && (layout == std::string(".3.h5") || layout == std::string(".keras"));
      testing::expect_close(testing::run_imported(imported, testing::doubles_of(x), x.dimensions),
                            testing::doubles_of(expected.at(other ? "y_keras_3" : "y")));
    }
  }
}

// The architecture of `name`, changed, with its own weights or those of `weights`.
struct Changed {
  std::string why;
  const char* name;
  std::function<void(json& layers, json& document)> change;
  ErrorCode code = ErrorCode::kUsage;
  const char* weights = nullptr;
};

// The configuration of the layer called so.
json& config_of(json& layers, const std::string& name) {
  for (json& layer : layers)
    if (layer["config"]["name"] == name) return layer["config"];
  throw std::runtime_error(name);
}
json& layer_of(json& layers, const std::string& name) {
  for (json& layer : layers)
    if (layer["config"]["name"] == name) return layer;
  throw std::runtime_error(name);
}

std::vector<Changed> refusals() {
  const auto set = [](const char* layer, const char* setting, json value) {
    return [=](json& layers, json&) { config_of(layers, layer)[setting] = value; };
  };
  const auto become = [](const char* layer, const char* type) {
    return [=](json& layers, json&) { layer_of(layers, layer)["class_name"] = type; };
  };
  return {
      {"layer \"l\" (Lambda): layers of this class", "leaky", become("l", "Lambda")},
      {"(MyOwnLayer): layers of this class", "leaky", become("l", "MyOwnLayer")},
      {"(ConvLSTM2D): layers of this class", "cnn", become("a", "ConvLSTM2D")},
      {"(CuDNNLSTM): layers of this class", "lstm_last", become("a", "CuDNNLSTM")},
      {"(Masking): layers of this class", "leaky", become("d", "Masking")},
      {"mask_zero", "tokens", set("e", "mask_zero", true)},
      {"go_backwards", "lstm_last", set("a", "go_backwards", true)},
      {"stateful", "lstm_last", set("a", "stateful", true)},
      {"return_state", "lstm_last", set("a", "return_state", true)},
      {"time_major", "lstm_last", set("a", "time_major", true)},
      {"merge_mode \"sum\"", "both_lstm", set("a", "merge_mode", "sum")},
      {"stands at the first step", "both_lstm",
       [](json& layers, json&) { config_of(layers, "a")["layer"]["config"]["return_sequences"] = false; }},
      {"recurrent_activation \"relu\", only sigmoid and hard_sigmoid", "lstm_last", set("a", "recurrent_activation", "relu")},
      {"activation \"relu\", only tanh", "gru_before", set("a", "activation", "relu")},
      {"activation \"sigmoid\", tanh and relu", "simple_rnn", set("a", "activation", "sigmoid")},
      {"activation \"elu\"", "mlp", set("a", "activation", "elu")},
      {"data_format channels_first", "cnn", set("a", "data_format", "channels_first")},
      {"padding \"same\" is 0 before and 1 behind", "cnn", set("b", "padding", "same")},
      {"padding \"causal\"", "conv1d", set("a", "padding", "causal")},
      {"along axis 1, only channels are normalised", "cnn_norm", set("n", "axis", {1})},
      {"along axis 1, only channels", "functional", set("both", "axis", 1)},
      {"a Conv2D at every step", "lstm_steps", [](json& layers, json&) { config_of(layers, "t")["layer"]["class_name"] = "Conv2D"; }},
      {"used 2 times, layers that are shared", "functional",
       [](json& layers, json&) { layer_of(layers, "three")["inbound_nodes"].push_back(layer_of(layers, "three")["inbound_nodes"][0]); }},
      {"called with arguments", "functional",
       [](json& layers, json&) {
         layer_of(layers, "three")["inbound_nodes"][0][0][3] = {{"mask", 1}};
       }},
      {"2 input_layers", "functional",
       [](json&, json& document) {
         document["config"]["input_layers"].push_back({"y", 0, 0});
       }},
      {"2 output_layers", "functional",
       [](json&, json& document) {
         document["config"]["output_layers"].push_back({"one", 0, 0});
       }},
      {"no keras_version", "mlp", [](json&, json& document) { document.erase("keras_version"); }, ErrorCode::kUsage, "bad_soft"},
      {"written by Keras 1.2.2", "mlp", [](json&, json& document) { document["keras_version"] = "1.2.2"; }},
      {"does not say the shape of its input", "mlp", [](json& layers, json&) { layers.erase(0); }},
      {"only the number of samples and of steps may be open", "cnn",
       [](json& layers, json&) { layers[0]["config"]["batch_input_shape"][1] = nullptr; }},
      {"follows a softmax", "mlp", set("b", "activation", "softmax")},
      {"a model of class MyModel", "mlp", [](json&, json& document) { document["class_name"] = "MyModel"; }},
      {"stands between a Flatten and a Dense", "cnn",
       [](json& layers, json&) {
         layers.insert(layers.begin() + 5, json{{"class_name", "BatchNormalization"}, {"config", {{"name", "n"}}}});
       }},
      {"max_value 6", "cnn_norm", set("r", "max_value", 6)},
      {"two layers are called \"d\"", "leaky", set("l", "name", "d"), ErrorCode::kMalformed},
      {"layer \"c\": the weights have no group", "mlp", [](json&, json&) {}, ErrorCode::kMismatch, "bad_soft"},
      {"[5, 7], [5, 8] was expected", "mlp", set("a", "units", 8), ErrorCode::kMismatch},
      {"1 tensors among the weights, 2 were expected", "mlp", set("b", "use_bias", true), ErrorCode::kMismatch},
      {"a/gru_cell/kernel:0 is [3, 12]", "gru_before", become("a", "LSTM"), ErrorCode::kMismatch},
      {"bias:0 is [12], [2, 12] was expected", "gru_before", set("a", "reset_after", true), ErrorCode::kMismatch},
      {"reads \"nobody\"", "functional", [](json& layers, json&) { layer_of(layers, "three")["inbound_nodes"][0][0][0] = "nobody"; },
       ErrorCode::kMalformed},
      {"lists no layers", "mlp", [](json& layers, json&) { layers = json::array(); }, ErrorCode::kMalformed},
      {"units is \"many\"", "mlp", set("a", "units", "many"), ErrorCode::kMalformed},
      {"(Reshape): layers of this class", "leaky",
       [](json& layers, json&) {
         layers.push_back({{"class_name", "Reshape"}, {"config", {{"name", "z"}}}});
       }},
  };
}

TEST(Keras, RefusesByName) {
  const testing_support::TemporaryFolder folder;
  const std::vector<Changed> all = refusals();
  EXPECT_GE(all.size(), 25U);
  for (const Changed& one : all) {
    SCOPED_TRACE(one.why);
    json document = json::parse(read_text(kKeras / (std::string(one.name) + ".json")));
    if (one.weights != nullptr && one.code == ErrorCode::kMismatch)  // its first layers have no weights
      document["config"]["layers"].erase(1), document["config"]["layers"].erase(1);
    one.change(document["config"]["layers"], document);
    const fs::path model = folder.path() / "model.json";
    std::ofstream(model) << document.dump();
    try {
      import_keras(model, kKeras / (one.weights == nullptr ? std::string(one.name) + ".weights.h5" : std::string(one.weights) + ".h5"));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(name_of(error.code()), name_of(one.code)) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(one.why));
    }
  }
}

TEST(Keras, FollowsNoLinksAndBelievesNoSizes) {
  const testing_support::TemporaryFolder folder;
  json document = json::parse(read_text(kKeras / "mlp.json"));
  const fs::path model = folder.path() / "model.json";
  document["config"]["layers"].erase(3), document["config"]["layers"].erase(2);
  document["config"]["layers"][1]["config"]["use_bias"] = false;
  std::ofstream(model) << document.dump();
  for (const auto& [name, why] : {std::pair{"bad_soft", "links are not followed"},
                                  {"bad_external_link", "links are not followed"},
                                  {"bad_external_bytes", "lies in another file"},
                                  {"bad_declared", "declares 2147483640 bytes and stores 0"}}) {
    try {
      import_keras(model, kKeras / (std::string(name) + ".h5"));
      ADD_FAILURE() << name << ": no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMalformed) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
    }
  }
}

TEST(Keras, NamesFilesThatAreCutShortOrHalfThere) {
  const testing_support::TemporaryFolder folder;
  const auto refused = [](const std::string& why, const fs::path& model, const fs::path& weights = {}) {
    try {
      import_keras(model, weights);
      ADD_FAILURE() << "no error with \"" << why << "\"";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
    }
  };
  refused("an architecture without weights", kKeras / "mlp.json");
  refused("holds its weights itself", kKeras / "mlp.keras", kKeras / "mlp.weights.h5");
  refused("holds weights alone", kKeras / "mlp.weights.h5");
  for (const char* const name : {"mlp.2.h5", "mlp.keras"}) {
    std::string bytes = read_text(kKeras / name);
    for (const size_t size : {bytes.size() / 2, size_t{100}, size_t{3}}) {
      std::ofstream(folder.path() / name, std::ios::binary) << bytes.substr(0, size);
      EXPECT_THROW(import_keras(folder.path() / name), Error) << name << " of " << size << " bytes";
    }
  }
}

}  // namespace
}  // namespace millrace
#endif
