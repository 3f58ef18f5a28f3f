// Recurrent networks: the ones that the papers on GRNN, FARNN, persistent RNNs and BB-LSTM measure. Weights of
// recurrent and embedding layers start as PyTorch's do: with the larger He values a ReLU cell's output grows from step to
// step over long sequences.
#include <fmt/format.h>

#include "core/graph/model_builder.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

constexpr int64_t kSpectrum = 161;  // bins of a 20 ms window at 16 kHz
constexpr int64_t kLetters = 29;    // blank, 26 letters, apostrophe, space

Model finish_sequence_model(ModelBuilder& net, InputKind input, const Operation& loss) {
  Model model = net.finish(loss);
  model.input_kind = input;
  for (Layer& layer : model.layers)
    if (std::holds_alternative<Recurrent>(layer.operation) || std::holds_alternative<Embedding>(layer.operation))
      layer.initializer = Initializer::kTorchUniform;
  return model;
}

// The latency grid of GRNN has both text models: three LSTM cells of 128 over 100 steps, two of 256 over 20.
Model char_rnn(const std::string& name) {
  ModelBuilder net(name, {1, 100, 1});
  net.layer("embedding", Embedding{.vocabulary = 128, .dimension = 128});
  for (int i = 1; i <= 3; ++i) net.layer(fmt::format("lstm{}", i), Recurrent{.hidden = 128});
  net.dense("fc", 128);
  return finish_sequence_model(net, InputKind::kTokens, SoftmaxCrossEntropy{});
}

// For running text, whose mini-batches continue each other.
Model stateful_char_rnn(const std::string& name) {
  Model model = char_rnn(name);
  for (Layer& layer : model.layers)
    if (auto* const cell = std::get_if<Recurrent>(&layer.operation)) cell->stateful = true;
  return model;
}

Model text_classifier(const std::string& name) {
  ModelBuilder net(name, {1, 20, 1});
  net.layer("embedding", Embedding{.vocabulary = 10000, .dimension = 256});
  for (int i = 1; i <= 2; ++i) net.layer(fmt::format("lstm{}", i), Recurrent{.hidden = 256});
  net.layer("last", LastStep{});
  net.dense("fc", 4);
  return finish_sequence_model(net, InputKind::kTokens, SoftmaxCrossEntropy{});
}

// The convolutions over time (rows) and frequency (columns) that Deep Speech 2 begins with, up to 32 * 41 features a step.
void append_speech_convolutions(ModelBuilder& net, int64_t time_stride) {
  const auto append = [&net](int i, const Conv2d& conv) {
    net.layer(fmt::format("conv{}", i), conv);
    net.layer(fmt::format("conv{}_norm", i), BatchNorm{});
    net.relu(fmt::format("conv{}_relu", i));
  };
  append(
      1,
      {.out_channels = 32, .kernel_h = 11, .kernel_w = 41, .stride_h = time_stride, .stride_w = 2, .pad_h = 5, .pad_w = 20, .bias = false});
  append(2, {.out_channels = 32, .kernel_h = 11, .kernel_w = 21, .stride_w = 2, .pad_h = 5, .pad_w = 10, .bias = false});
  net.layer("steps", ToSequence{});
}

// Amodei et al., "Deep Speech 2", 2015, in the size FARNN trains: 576 steps are what LibriSpeech has on average there.
Model deepspeech2(const std::string& name, const Recurrent& cell) {
  constexpr int kLayers = 7;
  ModelBuilder net(name, {1, 1152, kSpectrum});
  append_speech_convolutions(net, 2);
  for (int i = 1; i <= kLayers; ++i) {
    if (i > 1) net.layer(fmt::format("rnn{}_norm", i), BatchNorm{});
    net.layer(fmt::format("rnn{}", i), cell);
  }
  net.layer("fc_norm", BatchNorm{});
  net.dense("fc", kLetters);
  return finish_sequence_model(net, InputKind::kFeatures, CtcLoss{});
}

Model deepspeech2_lstm(const std::string& name) { return deepspeech2(name, {.hidden = 1024, .bidirectional = true}); }
Model deepspeech2_gru(const std::string& name) {
  return deepspeech2(name, {.cell = CellKind::kGru, .hidden = 1280, .bidirectional = true, .reset_after = true});
}

// He et al., "Streaming end-to-end speech recognition for mobile devices", 2018: 80 log-mel bands, three frames stacked.
Model rnnt_encoder(const std::string& name) {
  ModelBuilder net(name, {240, 400, 1});
  for (int i = 1; i <= 8; ++i) net.layer(fmt::format("lstm{}", i), Recurrent{.hidden = 2048, .projection = 640});
  net.dense("fc", kLetters);
  return finish_sequence_model(net, InputKind::kFeatures, CtcLoss{});
}

// Diamos et al., "Persistent RNNs: stashing weights on-chip", 2016: 30 seconds are 3,000 steps.
Model residual_rnn(const std::string& name, int64_t layers, int64_t skip) {
  constexpr int64_t kUnits = 1152;
  ModelBuilder net(name, {1, 3000, kSpectrum});
  append_speech_convolutions(net, 1);
  net.dense("fc_in", kUnits);
  std::string shortcut = net.last();
  for (int64_t i = 1; i <= layers; ++i) {
    net.layer(fmt::format("rnn{}_norm", i), BatchNorm{});
    net.layer(fmt::format("rnn{}", i), Recurrent{.cell = CellKind::kVanillaRelu, .hidden = kUnits});
    if (skip > 0 && (i % skip == 0 || i == layers)) shortcut = net.add(fmt::format("rnn{}_add", i), {net.last(), shortcut});
  }
  net.layer("fc_norm", BatchNorm{});
  net.dense("fc", kLetters);
  return finish_sequence_model(net, InputKind::kFeatures, CtcLoss{});
}

// The recurrent part of LRCN (Donahue et al., 2015) as BB-LSTM runs it, on what Inception-v3 makes of 32 video frames.
Model lrcn_lstm(const std::string& name, int64_t hidden) {
  ModelBuilder net(name, {2048, 32, 1});
  net.dense("fc_in", 1792);
  net.relu("relu");
  net.layer("lstm", Recurrent{.hidden = hidden});
  net.layer("average", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", 101);
  return finish_sequence_model(net, InputKind::kFeatures, SoftmaxCrossEntropy{});
}

}  // namespace

std::vector<ZooEntry> recurrent_family() {
  std::vector<ZooEntry> entries{
      {"char-rnn", "three LSTM layers of 128 over 100 characters, as GRNN measures it; embedded, not one-hot", char_rnn},
      {"char-rnn-stateful", "char-rnn whose layers keep their state from mini-batch to mini-batch, for running text", stateful_char_rnn},
      {"text-classifier", "two LSTM layers of 256 over 20 words, as GRNN measures it; 10,000 words, four classes", text_classifier},
      {"deepspeech2-lstm", "Deep Speech 2 in FARNN's size, 7 x 1024; plain ReLU, directions side by side instead of added",
       deepspeech2_lstm},
      {"deepspeech2-gru", "Deep Speech 2 in FARNN's size, 7 x 1280, cuDNN's GRU; otherwise as deepspeech2-lstm", deepspeech2_gru},
      {"rnnt-encoder", "encoder of RNN-T, 8 x 2048 projected to 640; CTC head, no time reduction, no layer norm", rnnt_encoder},
  };
  constexpr int64_t kUsualSkip = 4;
  constexpr int64_t kMostSkip = 8;
  for (const int64_t layers : {24, 48, 108}) {
    const auto with_skip = [layers](int64_t skip) {
      return [layers, skip](const std::string& name) { return residual_rnn(name, layers, skip); };
    };
    const std::string name = fmt::format("residual-rnn-{}", layers);
    entries.push_back({name, fmt::format("{} ReLU layers of 1,152 over 3,000 steps, a skip every 4; -skip0 to -skip8 for others", layers),
                       with_skip(kUsualSkip)});
    for (int64_t skip = 0; skip <= kMostSkip; ++skip)
      entries.push_back(
          {.name = fmt::format("{}-skip{}", name, skip),
           .summary = skip == 0 ? fmt::format("{} without skips", name) : fmt::format("{} with a skip every {} layers", name, skip),
           .build = with_skip(skip),
           .listed = false});
  }
  for (const int64_t hidden : {256, 512})
    entries.push_back({fmt::format("lrcn-lstm-{}", hidden),
                       fmt::format("LSTM of {} on 32 frames' Inception features, as BB-LSTM runs it; scores of the mean step", hidden),
                       [hidden](const std::string& name) { return lrcn_lstm(name, hidden); }});
  return entries;
}

}  // namespace millrace
