// A network that another program has written, as Millrace's own: model, weights, and where every tensor came from.
//
//   const Imported imported = import_onnx("net.onnx");             // core/exchange/onnx_import.h
//   write_imported(imported, "net");                               // a folder that --model, --init-from and --checkpoint take
//
// The folder holds model.textproto, weights.safetensors, import.json (each tensor: source, transform, shape; notes) and what makes it a
// checkpoint of step 0. What has no counterpart was refused before; what was left out because nothing depends on it is said in the notes.
// Plain values.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/documents/model.h"
#include "core/train/safetensors.h"

namespace millrace {

struct ImportedTensor {
  std::string tensor;     // its name here: "conv1.weight"
  std::string source;     // its name in the file, or "none" for what the file does not hold
  std::string transform;  // "as it is", "transposed", "gates i o f c to i f g o", ...
};

struct Imported {
  Model model;  // ends in softmax_cross_entropy, so that it can be trained
  TensorMap weights;
  std::vector<ImportedTensor> tensors;
  std::vector<std::string> notes;
  std::string source;  // file and format, for people
  // What the axes of the file's input and output stand for, in its order: N the sample, C channels, H rows or steps, W columns, 1 an axis
  // of one.
  std::string input_axes, output_axes;
};

// Makes the folder. Fails with kUsage when there is something already.
void write_imported(const Imported& imported, const std::filesystem::path& folder);

}  // namespace millrace
