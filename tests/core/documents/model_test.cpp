#include "core/documents/model.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/files.h"
#include "tests/core/documents/expect_error.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

const std::string kData = MILLRACE_SOURCE_DIR "/tests/core/documents/data/";

// A model around one layer, which stands in line 3.
std::string around(const std::string& layer) { return "name: \"m\"\ninput { channels: 4 height: 8 width: 8 }\n" + layer + "\n"; }
Model parsed(const std::string& layer) { return parse_model(around(layer), "m.textproto"); }
void expect_malformed_model(const std::string& layer, const std::string& words) {
  expect_error(ErrorCode::kMalformed, words, [&] { parsed(layer); });
}

TEST(ModelDocument, ReadsLenet) {
  const Model model = load_model(kData + "lenet.textproto");
  EXPECT_EQ(model.name, "lenet");
  EXPECT_EQ(model.input_kind, InputKind::kImage);
  EXPECT_EQ(model.input, (Shape{1, 32, 32}));
  ASSERT_EQ(model.layers.size(), 13U);
  const auto& c3 = std::get<Conv2d>(model.layers[3].operation);
  EXPECT_EQ(c3, (Conv2d{.out_channels = 16, .kernel_h = 5, .kernel_w = 5}));
  EXPECT_EQ(model.layers[3].initializer, Initializer::kXavierUniform);
  EXPECT_EQ(std::get<Activation>(model.layers[1].operation).kind, ActivationKind::kTanh);
  EXPECT_EQ(std::get<Pool2d>(model.layers[2].operation).kind, PoolKind::kAverage);
}

TEST(ModelDocument, ALayerWithoutInputsReadsTheOneBefore) {
  const Model model = load_model(kData + "lenet.textproto");
  EXPECT_EQ(model.layers[0].inputs, std::vector<std::string>{"input"});
  EXPECT_EQ(model.layers[1].inputs, std::vector<std::string>{"c1"});
  // And is written so again.
  EXPECT_EQ(text_of(model).find("inputs"), std::string::npos);
}

TEST(ModelDocument, SquareSizesNeedOneField) {
  const Model square = parsed("layers { name: \"c\" conv2d { out_channels: 2 kernel: 3 stride: 2 pad: 1 dilation: 4 } }");
  EXPECT_EQ(std::get<Conv2d>(square.layers[0].operation), (Conv2d{.out_channels = 2,
                                                                  .kernel_h = 3,
                                                                  .kernel_w = 3,
                                                                  .stride_h = 2,
                                                                  .stride_w = 2,
                                                                  .pad_h = 1,
                                                                  .pad_w = 1,
                                                                  .dilation_h = 4,
                                                                  .dilation_w = 4}));
  const Model oblong = parsed("layers { name: \"c\" conv2d { out_channels: 2 kernel_h: 3 kernel_w: 1 pad_h: 1 } }");
  EXPECT_EQ(std::get<Conv2d>(oblong.layers[0].operation), (Conv2d{.out_channels = 2, .kernel_h = 3, .kernel_w = 1, .pad_h = 1}));
  EXPECT_NE(text_of(square).find("conv2d { out_channels: 2 kernel: 3 stride: 2 pad: 1 dilation: 4 }"), std::string::npos)
      << text_of(square);
  EXPECT_NE(text_of(oblong).find("kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0"), std::string::npos) << text_of(oblong);
  expect_malformed_model("layers { name: \"c\" conv2d { out_channels: 2 kernel: 3 kernel_w: 1 } }",
                         "m.textproto: layers[0].conv2d: kernel stands for kernel_h and kernel_w; give it, or them, not both");
}

TEST(ModelDocument, AbsentFieldsTakeTheDefaultsOfTheStructs) {
  const Model model = parsed(
      "layers { name: \"a\" max_pool {} } layers { name: \"b\" leaky_relu {} } layers { name: \"c\" local_response_norm {} }"
      "layers { name: \"d\" batch_norm {} } layers { name: \"e\" dropout {} } layers { name: \"f\" lstm { hidden: 3 } }");
  EXPECT_EQ(model.layers[0].operation, Operation(Pool2d{}));
  EXPECT_EQ(model.layers[1].operation, Operation(Activation{.kind = ActivationKind::kLeakyRelu}));
  EXPECT_EQ(model.layers[2].operation, Operation(LocalResponseNorm{}));
  EXPECT_EQ(model.layers[3].operation, Operation(BatchNorm{}));
  EXPECT_EQ(model.layers[4].operation, Operation(Dropout{}));
  EXPECT_EQ(model.layers[5].operation, Operation(Recurrent{.hidden = 3}));
  EXPECT_FALSE(model.layers[0].frozen);
  EXPECT_EQ(model.layers[0].initializer, Initializer::kHeNormal);
}

TEST(ModelDocument, TextIsReadable) {
  EXPECT_EQ(text_of(parsed(
                "layers { name: \"c\" conv2d { out_channels: 2 kernel: 3 } } layers { name: \"r\" inputs: [\"c\", \"input\"] add {} }")),
            "version: 1\n"
            "name: \"m\"\n"
            "input { channels: 4 height: 8 width: 8 }\n"
            "layers { name: \"c\" conv2d { out_channels: 2 kernel: 3 } }\n"
            "layers { name: \"r\" inputs: [\"c\", \"input\"] add {} }\n");
}

TEST(ModelDocument, ErrorsOfFormNameLineAndColumn) {
  expect_malformed_model("layers { name: \"c\" conv2d { out_channels: two } }", "m.textproto:3:43: Expected integer");
  expect_malformed_model("layers { name: \"c\" conv2d { kernal: 3 } }",
                         "m.textproto:3:29: Message type \"Conv2d\" has no field named \"kernal\"; did you mean \"kernel\"?");
  expect_malformed_model("layers { name: \"c\" relu {} initializer: HE }", "m.textproto:3:41: Unknown enumeration value of \"HE\"");
  expect_malformed_model("layers { name: \"c\" relu {} initializer: HE_NORMALL }", "\"initializer\"; did you mean \"HE_NORMAL\"?");
  expect_malformed_model("layers { name: \"c\" relu {} initializer: 99 }",
                         "m.textproto: layers[0].initializer: 99 is none of HE_NORMAL, HE_UNIFORM,");
  expect_malformed_model("layers { name: \"c\" relu {} tanh {} }", "m.textproto:3:");
  expect_malformed_model("layers { name: \"c\" name: \"d\" relu {} }", "m.textproto:3:");
  expect_malformed_model("layers { name: \"c\" relu {}", "m.textproto:4:1:");
  expect_malformed_model("layers { name: \"c\" relu {} } \x01", "m.textproto:3:");
}

TEST(ModelDocument, ErrorsOfValueNameFieldAndValue) {
  expect_malformed_model("layers { relu {} }", "m.textproto: layers[0]: name is missing");
  expect_malformed_model("layers { name: \"\" relu {} }", "layers[0].name: \"\" must not be empty");
  expect_malformed_model("layers { name: \"a b\" relu {} }", "layers[0].name: \"a b\" must be made of letters, digits and any of _ . - /");
  expect_malformed_model("layers { name: \"input\" relu {} }", "layers[0].name: \"input\" means the network's input; rename the layer");
  expect_malformed_model("layers { name: \"a\" relu {} } layers { name: \"b\" relu {} } layers { name: \"a\" relu {} }",
                         "layers[2].name: \"a\" is already the name of layers[0]");
  expect_malformed_model("layers { name: \"a\" }", "layers[0]: layer \"a\" has no operation");
  expect_malformed_model("", "m.textproto: layers: none given");
  expect_malformed_model("layers { name: \"a\" conv2d { kernel: 3 } }", "layers[0].conv2d: out_channels is missing");
  expect_malformed_model("layers { name: \"a\" conv2d { out_channels: 0 } }", "layers[0].conv2d.out_channels: 0 must be positive");
  expect_malformed_model("layers { name: \"a\" conv2d { out_channels: 8 kernel: 0 } }", "layers[0].conv2d.kernel: 0 must be positive");
  expect_malformed_model("layers { name: \"a\" conv2d { out_channels: 8 kernel_w: -3 } }",
                         "layers[0].conv2d.kernel_w: -3 must be positive");
  expect_malformed_model("layers { name: \"a\" conv2d { out_channels: 8 stride: -1 } }", "layers[0].conv2d.stride: -1 must be positive");
  expect_malformed_model("layers { name: \"a\" conv2d { out_channels: 8 pad: -1 } }", "layers[0].conv2d.pad: -1 must not be negative");
  expect_malformed_model("layers { name: \"a\" conv2d { out_channels: 8 groups: 3 } }",
                         "layers[0].conv2d.groups: 3 must divide out_channels, which is 8");
  expect_malformed_model("layers { name: \"a\" dense { out_features: 2147483648 } }",
                         "layers[0].dense.out_features: 2147483648 must be at most 2147483647");
  expect_malformed_model("layers { name: \"a\" dropout { probability: 1 } }", "layers[0].dropout.probability: 1 must be below 1");
  expect_malformed_model("layers { name: \"a\" dropout { probability: nan } }",
                         "layers[0].dropout.probability: nan must be a finite number");
  expect_malformed_model("layers { name: \"a\" batch_norm { epsilon: 0 } }", "layers[0].batch_norm.epsilon: 0 must be positive");
  expect_malformed_model("layers { name: \"a\" batch_norm { momentum: 1.5 } }", "layers[0].batch_norm.momentum: 1.5 must be at most 1");
  expect_malformed_model("layers { name: \"a\" leaky_relu { slope: -inf } }", "layers[0].leaky_relu.slope: -inf must be a finite number");
  expect_malformed_model("layers { name: \"a\" leaky_relu { slope: 1e999 } }", "layers[0].leaky_relu.slope: inf must be a finite number");
  expect_malformed_model("layers { name: \"a\" max_pool { count_include_pad: true } }", "layers[0].max_pool.count_include_pad");
  expect_malformed_model("layers { name: \"a\" gru { hidden: 4 projection: 2 } }",
                         "layers[0].gru.projection: 2 makes no sense here; only lstm has one");
  expect_malformed_model("layers { name: \"a\" lstm { hidden: 4 reset_after: true } }", "layers[0].lstm.reset_after");
  expect_malformed_model("layers { name: \"a\" rnn_tanh { hidden: 4 gate_activation: HARD_SIGMOID } }",
                         "layers[0].rnn_tanh.gate_activation: HARD_SIGMOID makes no sense here; only lstm and gru have gates");
  expect_malformed_model("layers { name: \"a\" lstm { hidden: 4 gate_slope: 0.3 } }",
                         "layers[0].lstm.gate_slope: 0.3 makes no sense here; only gates of HARD_SIGMOID have a slope");
  expect_malformed_model("layers { name: \"a\" inputs: \"b c\" add {} }", "layers[0].inputs[0]: \"b c\"");
}

TEST(ModelDocument, RefusesInputsThatCannotBeCounted) {
  const auto with_input = [](const std::string& shape) {
    parse_model("name: \"m\" input { " + shape + " } layers { name: \"r\" relu {} }", "m");
  };
  with_input("channels: 65536 height: 1024 width: 1024");  // 2^36
  expect_error(ErrorCode::kMalformed, "m: input: 65537x1024x1024 has more than",
               [&] { with_input("channels: 65537 height: 1024 width: 1024"); });
  expect_error(ErrorCode::kMalformed, "m: input: 2147483647x2147483647x2147483647 has more than",
               [&] { with_input("channels: 2147483647 height: 2147483647 width: 2147483647"); });
  expect_error(ErrorCode::kMalformed, "m: input: channels is missing", [&] { with_input(""); });
  expect_error(ErrorCode::kMalformed, "m: input is missing", [] { parse_model("name: \"m\" layers { name: \"r\" relu {} }", "m"); });
}

TEST(ModelDocument, RefusesAMillionAndOneLayers) {
  std::string text = around("");
  for (int i = 0; i <= 1'000'000; ++i) text += "layers{name:\"" + std::to_string(i) + "\" relu{}}";
  expect_error(ErrorCode::kMalformed, "layers: 1000001 entries; at most 1000000 are allowed", [&] { parse_model(text, "m"); });
}

TEST(ModelDocument, RefusesMoreTextThanADocumentHas) {
  const std::string text((size_t{256} << 20) + 1, ' ');
  expect_error(ErrorCode::kMalformed, "m: 268435457 bytes of text; a document has at most 268435456", [&] { parse_model(text, "m"); });
}

TEST(ModelDocument, DeepNestingIsRefused) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "layers{";
  expect_error(ErrorCode::kMalformed, "m:", [&] { parse_model(text, "m"); });
}

TEST(ModelDocument, NamesItsFile) {
  expect_error(ErrorCode::kNotFound, "/nowhere/m.textproto", [] { load_model("/nowhere/m.textproto"); });
  const std::string path = testing::TempDir() + "broken.textproto";
  write_atomically(path, "layers {");
  expect_error(ErrorCode::kMalformed, path + ":1:9:", [&] { load_model(path); });
  std::filesystem::remove(path);
}

TEST(ModelDocument, OperationsHaveTheWordsOfTheDocument) {
  EXPECT_EQ(name_of(Operation(Conv2d{})), "conv2d");
  EXPECT_EQ(name_of(Operation(Pool2d{.kind = PoolKind::kAverage})), "average_pool");
  EXPECT_EQ(name_of(Operation(Activation{.kind = ActivationKind::kLeakyRelu})), "leaky_relu");
  EXPECT_EQ(name_of(Operation(Recurrent{.cell = CellKind::kVanillaTanh})), "rnn_tanh");
  EXPECT_EQ(text_of(Shape{64, 32, 16}), "64x32x16");
}

}  // namespace
}  // namespace millrace
