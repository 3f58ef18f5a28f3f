// A network and its weights as an ONNX file, opset 13.
//
//   export_onnx(Graph(model), weights, "net.onnx");
//
// One node per layer, called as the layer, with transposes around recurrent layers and batch norms of steps where ONNX wants its axes
// otherwise; the loss is left out, so the output, "scores", is what it would have read. The number of samples is open. Inputs: images [N,
// C, H, W], vectors [N, F], steps [N, T, F], ids [N, T] (int64). Weights are stored in fp32, bit by bit: what import_onnx reads back are
// the same ones. Refused with kUsage, by layer: stateful layers and projections (ONNX's cells have neither), layers over steps whose axes
// ONNX has no operator for. Fails with kUnavailable when this build has no libonnx.
#pragma once

#include <filesystem>

#include "core/graph/graph.h"
#include "core/train/safetensors.h"

namespace millrace {

void export_onnx(const Graph& graph, const TensorMap& weights, const std::filesystem::path& path);

}  // namespace millrace
