#ifdef MILLRACE_HAS_ONNX
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/random.h"
#include "core/data/npy.h"
#include "core/exchange/onnx_export.h"
#include "core/exchange/onnx_import.h"
#include "core/graph/zoo.h"
#include "core/train/checkpoint.h"
#include "core/train/segment_state.h"
#include "tests/core/exchange/run_onnx.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testing::doubles_of;
using testing::expect_close;
using testing::run_imported;
using testing_support::TemporaryFolder;

const fs::path kFiles = fs::path(MILLRACE_SOURCE_DIR) / "tests/core/exchange/data";

TEST(OnnxRecurrence, AgreesWithLoopsOverTheDefinitions) {
  int seen = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFiles)) {
    if (entry.path().extension() != ".onnx" || entry.path().stem() == "stripes") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const std::vector<std::byte> bytes = read_bytes(fs::path(entry.path()).replace_extension(".npz"));
    const NpzFile expected = parse_npz(bytes, "expected");
    const Imported imported = import_onnx(entry.path());
    const NpyArray& x = expected.at("x");
    expect_close(run_imported(imported, doubles_of(x), x.dimensions), doubles_of(expected.at("y")));
    ++seen;
  }
  EXPECT_EQ(seen, 31);
}

// A model's weights, all of them random, in fp32.
TensorMap random_weights(const Graph& graph) {
  TensorMap weights;
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      const std::string name = stored_name(node, parameter);
      const Philox draw(3, stream_id("weights", name));
      std::vector<float> values(static_cast<size_t>(parameter.elements()));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = parameter.tensor == "running_var" ? 0.5F + draw.uniform(i) : 0.3F * static_cast<float>(draw.normal(i));
      weights[name] = host_tensor(parameter.dimensions, std::span<const float>(values));
    }
  return weights;
}

Imported as_imported(const Model& model, const TensorMap& weights) {
  Imported own;
  own.model = model;
  own.weights = weights;
  own.input_axes = own.output_axes = "NCHW";
  return own;
}

void expect_round_trip(const Model& model, const TemporaryFolder& folder) {
  SCOPED_TRACE(model.name);
  const Graph graph(model);
  const TensorMap weights = random_weights(graph);
  const fs::path file = folder.path() / "net.onnx";
  export_onnx(graph, weights, file);
  const Imported back = import_onnx(file);
  EXPECT_EQ(back.weights, weights) << "the same bits under the same names";
  EXPECT_EQ(back.model.input, model.input);
  // Rows and columns of sound are those of an image there.
  EXPECT_TRUE(model.name == "sound" || back.model.input_kind == model.input_kind);
  // The same scores: in our order of axes on both sides.
  const int64_t samples = 2;
  std::vector<double> input(static_cast<size_t>(samples * model.input.elements()));
  const Philox draw(5, stream_id("input"));
  for (size_t i = 0; i < input.size(); ++i)
    input[i] = model.input_kind == InputKind::kTokens ? static_cast<double>(draw.below(i, 11)) : draw.normal(i);
  Imported theirs = back;
  theirs.input_axes = theirs.output_axes = "NCHW";
  const std::vector<int64_t> dimensions = {samples, model.input.channels, model.input.height, model.input.width};
  const std::vector<double> mine = run_imported(as_imported(model, weights), input, dimensions),
                            found = run_imported(theirs, input, dimensions);
  ASSERT_EQ(mine.size(), found.size());
  for (size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], found[i], 1e-6 * std::max(1.0, std::abs(mine[i]))) << i;
}

TEST(OnnxExport, ComesBackWithTheSameBitsAndScores) {
  const TemporaryFolder folder;
  for (const char* const text : {R"(name: "images" input { channels: 3 height: 12 width: 14 }
           layers { name: "conv1" conv2d { out_channels: 8 kernel: 3 pad: 1 bias: false } }
           layers { name: "norm1" batch_norm { epsilon: 0.001 } }
           layers { name: "relu1" leaky_relu { slope: 0.2 } }
           layers { name: "pool1" max_pool { ceil_mode: true kernel: 3 } }
           layers { name: "lrn" local_response_norm { size: 3 alpha: 0.1 } }
           layers { name: "a" conv2d { out_channels: 4 kernel_h: 3 kernel_w: 1 pad_h: 1 groups: 2 } }
           layers { name: "b" inputs: "lrn" conv2d { out_channels: 4 kernel: 3 dilation: 2 pad: 2 } }
           layers { name: "sum" inputs: ["a", "b"] add {} }
           layers { name: "both" inputs: ["sum", "a"] concat {} }
           layers { name: "average" average_pool { kernel: 2 stride: 1 pad: 1 count_include_pad: true } }
           layers { name: "flatten" flatten {} }
           layers { name: "drop" dropout { probability: 0.25 } }
           layers { name: "fc1" dense { out_features: 9 } }
           layers { name: "tanh" tanh {} }
           layers { name: "fc2" dense { out_features: 5 bias: false } }
           layers { name: "loss" softmax_cross_entropy {} })",
                                 R"(name: "steps" input_kind: FEATURES input { channels: 3 height: 5 }
           layers { name: "dense" dense { out_features: 6 } }
           layers { name: "lstm" lstm { hidden: 4 bidirectional: true } }
           layers { name: "norm" batch_norm {} }
           layers { name: "gru1" gru { hidden: 5 reset_after: true } }
           layers { name: "gru2" gru { hidden: 3 } }
           layers { name: "hard1" lstm { hidden: 4 bidirectional: true gate_activation: HARD_SIGMOID gate_slope: 0.25 } }
           layers { name: "hard2" gru { hidden: 5 gate_activation: HARD_SIGMOID } }
           layers { name: "relu" rnn_relu { hidden: 7 } }
           layers { name: "tanh" rnn_tanh { hidden: 6 } }
           layers { name: "last" last_step {} }
           layers { name: "fc" dense { out_features: 4 } }
           layers { name: "loss" softmax_cross_entropy {} })",
                                 R"(name: "tokens" input_kind: TOKENS input { channels: 1 height: 6 }
           layers { name: "embedding" embedding { vocabulary: 11 dimension: 5 } }
           layers { name: "lstm" lstm { hidden: 4 } }
           layers { name: "fc" dense { out_features: 11 } }
           layers { name: "loss" softmax_cross_entropy {} })",
                                 R"(name: "vectors" input { channels: 7 }
           layers { name: "fc1" dense { out_features: 6 } }
           layers { name: "norm" batch_norm {} }
           layers { name: "sigmoid" sigmoid {} }
           layers { name: "fc2" dense { out_features: 3 } }
           layers { name: "loss" softmax_cross_entropy {} })",
                                 R"(name: "sound" input_kind: FEATURES input { channels: 1 height: 8 width: 6 }
           layers { name: "conv" conv2d { out_channels: 2 kernel: 3 pad: 1 } }
           layers { name: "rows" to_sequence {} }
           layers { name: "lstm" lstm { hidden: 4 } }
           layers { name: "fc" dense { out_features: 3 } }
           layers { name: "loss" softmax_cross_entropy {} })"}) {
    const Model model = parse_model(text, "model.textproto");
    expect_round_trip(model, folder);
  }
  expect_round_trip(zoo_model("lenet5"), folder);
}

// A file of one node over x [2, 3, 4, 4], and `change` to it.
template <typename Change>
std::string file_with(Change change) {
  onnx::ModelProto model;
  model.set_ir_version(7);
  auto* const opset = model.add_opset_import();
  opset->set_version(13);
  auto* const graph = model.mutable_graph();
  graph->set_name("net");
  auto* const input = graph->add_input();
  input->set_name("x");
  input->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t extent : {2, 3, 4, 4}) input->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  graph->add_output()->set_name("y");
  auto* const node = graph->add_node();
  node->set_op_type("Relu");
  node->set_name("node");
  node->add_input("x");
  node->add_output("y");
  change(model, *graph, *node);
  return model.SerializeAsString();
}

template <typename Change>
void expect_refusal(ErrorCode code, const std::string& part, Change change) {
  const std::string file = file_with(change);
  try {
    import_onnx(std::as_bytes(std::span(file)), "net.onnx", fs::temp_directory_path());
    ADD_FAILURE() << "no error, expected one with \"" << part << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
  }
}

onnx::TensorProto* weight(onnx::GraphProto& graph, const char* name, const std::vector<int64_t>& dimensions) {
  auto* const tensor = graph.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  int64_t elements = 1;
  for (const int64_t extent : dimensions) {
    tensor->add_dims(extent);
    elements *= extent;
  }
  for (int64_t i = 0; i < elements; ++i) tensor->add_float_data(static_cast<float>(i));
  return tensor;
}

TEST(OnnxImport, RefusesByNameWhatHasNoCounterpart) {
  using onnx::GraphProto;
  using onnx::ModelProto;
  using onnx::NodeProto;
  const auto convolution = [](GraphProto& graph, NodeProto& node) {
    node.set_op_type("Conv");
    node.add_input("w");
    return weight(graph, "w", {5, 3, 3, 3});
  };
  const auto attribute = [](NodeProto& node, const char* name) {
    auto* const one = node.add_attribute();
    one->set_name(name);
    return one;
  };
  expect_refusal(ErrorCode::kUsage, "Erf \"node\": this operator (opset 13) has no counterpart",
                 [](ModelProto&, GraphProto&, NodeProto& node) { node.set_op_type("Erf"); });
  expect_refusal(ErrorCode::kUsage, "domain \"com.example\"",
                 [](ModelProto&, GraphProto&, NodeProto& node) { node.set_domain("com.example"); });
  expect_refusal(ErrorCode::kUsage, "opset 99",
                 [](ModelProto& model, GraphProto&, NodeProto&) { model.mutable_opset_import(0)->set_version(99); });
  expect_refusal(ErrorCode::kUsage, "pads of 1 before and 2 behind", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
    convolution(graph, node);
    auto* const pads = attribute(node, "pads");
    pads->set_type(onnx::AttributeProto::INTS);
    for (const int64_t pad : {1, 1, 2, 1}) pads->add_ints(pad);
  });
  expect_refusal(ErrorCode::kUsage, "attribute \"surprise\" has no counterpart", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
    convolution(graph, node);
    attribute(node, "surprise");
  });
  expect_refusal(ErrorCode::kUsage, "\"w\" is not a constant", [](ModelProto&, GraphProto&, NodeProto& node) {
    node.set_op_type("Conv");
    node.add_input("w");
  });
  expect_refusal(ErrorCode::kUsage, "axis 2 is open (\"rows\")", [](ModelProto&, GraphProto& graph, NodeProto&) {
    graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(2)->set_dim_param("rows");
  });
  expect_refusal(ErrorCode::kUsage, "2 outputs", [](ModelProto&, GraphProto& graph, NodeProto&) { graph.add_output()->set_name("x"); });
  expect_refusal(ErrorCode::kMalformed, "5 elements",
                 [&](ModelProto&, GraphProto& graph, NodeProto& node) { convolution(graph, node)->mutable_float_data()->Truncate(5); });
  expect_refusal(ErrorCode::kMalformed, "3 bytes", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
    auto* const w = convolution(graph, node);
    w->clear_float_data();
    w->set_raw_data("abc");
  });
  expect_refusal(ErrorCode::kMalformed, "is no shape", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
    auto* const w = convolution(graph, node);
    w->set_dims(0, int64_t{1} << 40);
    w->set_dims(1, int64_t{1} << 40);
  });
  // Said before memory for them is asked for: 32 GiB.
  expect_refusal(ErrorCode::kMalformed, "0 elements", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
    auto* const w = convolution(graph, node);
    w->clear_float_data();
    w->set_dims(0, int64_t{1} << 29);
    w->set_dims(1, 8);
    w->set_dims(2, 2);
    w->set_dims(3, 1);
  });
  for (const char* const place : {"../../etc/passwd", "/etc/passwd", "nowhere.bin"})
    expect_refusal(ErrorCode::kMalformed, "outside of the model's folder", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
      auto* const w = convolution(graph, node);
      w->clear_float_data();
      w->set_data_location(onnx::TensorProto::EXTERNAL);
      auto* const entry = w->add_external_data();
      entry->set_key("location");
      entry->set_value(place);
    });
  const auto lists = [&](NodeProto& node, std::initializer_list<const char*> activations, std::initializer_list<float> alphas,
                         std::initializer_list<float> betas) {
    node.set_op_type("LSTM");
    auto* const words = attribute(node, "activations");
    words->set_type(onnx::AttributeProto::STRINGS);
    for (const char* const word : activations) words->add_strings(word);
    for (const auto& [name, numbers] : {std::pair{"activation_alpha", alphas}, {"activation_beta", betas}}) {
      auto* const list = attribute(node, name);
      list->set_type(onnx::AttributeProto::FLOATS);
      for (const float number : numbers) list->add_floats(number);
    }
  };
  const auto refuse_lists = [&](const char* part, std::initializer_list<const char*> activations, std::initializer_list<float> alphas,
                                std::initializer_list<float> betas, bool both = false) {
    expect_refusal(ErrorCode::kUsage, part, [&](ModelProto&, GraphProto& graph, NodeProto& node) {
      auto* const shape = graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
      shape->mutable_dim()->RemoveLast();  // steps, samples, features
      lists(node, activations, alphas, betas);
      if (!both) return;
      auto* const direction = attribute(node, "direction");
      direction->set_type(onnx::AttributeProto::STRING);
      direction->set_s("bidirectional");
    });
  };
  refuse_lists("activation_beta 0.4", {"HardSigmoid", "Tanh", "Tanh"}, {0.2F}, {0.4F});
  refuse_lists("activation_alpha 0", {"HardSigmoid", "Tanh", "Tanh"}, {0.0F}, {0.5F});
  refuse_lists("activation_alpha of 2 numbers", {"HardSigmoid", "Tanh", "Tanh"}, {0.2F, 0.3F}, {});
  refuse_lists("activation_alpha and activation_beta", {"Sigmoid", "Tanh", "Tanh"}, {0.2F}, {0.5F});
  refuse_lists("activations hardsigmoid, hardsigmoid, tanh", {"HardSigmoid", "HardSigmoid", "Tanh"}, {}, {});
  refuse_lists("both directions have one", {"HardSigmoid", "Tanh", "Tanh", "HardSigmoid", "Tanh", "Tanh"}, {0.2F, 0.3F}, {}, true);
  for (const char* const type : {"BatchNormalization", "Conv"})  // the scale, and the bias
    expect_refusal(ErrorCode::kUsage, "holds whole numbers", [&](ModelProto&, GraphProto& graph, NodeProto& node) {
      convolution(graph, node);
      node.set_op_type(type);
      if (node.op_type() == "BatchNormalization") node.mutable_input()->RemoveLast();
      node.add_input("whole");
      auto* const whole = weight(graph, "whole", {5});
      whole->clear_float_data();
      whole->set_data_type(onnx::TensorProto::INT32);
      for (int i = 0; i < 5; ++i) whole->add_int32_data(i);
    });
  expect_refusal(ErrorCode::kMalformed, "is made by no node", [](ModelProto&, GraphProto&, NodeProto& node) { node.set_input(0, "z"); });
  const std::string rubbish = "no ONNX at all, but long enough to be parsed as something";
  EXPECT_THROW(import_onnx(std::as_bytes(std::span(rubbish)), "net.onnx"), Error);
}

TEST(OnnxImport, RecordsEveryTensorInAFolderThatIsACheckpoint) {
  const TemporaryFolder folder;
  const Imported imported = import_onnx(kFiles / "lstm_2_steps.onnx");
  write_imported(imported, folder.path() / "net");
  EXPECT_EQ(load_weights(folder.path() / "net"), imported.weights);
  EXPECT_EQ(load_model(folder.path() / "net" / "model.textproto"), imported.model);
  const std::string record = read_text(folder.path() / "net" / "import.json");
  EXPECT_THAT(record, ::testing::HasSubstr("gates i o f c to i f g o"));
  EXPECT_EQ(imported.tensors.size(), 8U);
  EXPECT_EQ(read_checkpoint(locate_checkpoint(folder.path() / "net")).weights, imported.weights);
  EXPECT_THROW(write_imported(imported, folder.path() / "net"), Error) << "nothing is written over";
}

}  // namespace
}  // namespace millrace
#endif
