// The calibrated formats of the run that weights are from, for whoever computes with them in sixteen bits.
//
//   const std::string file = formats_file_of("runs/rows");           // "runs/rows/formats.txt"
//   if (!file.empty()) device = with_formats(std::move(device), formats_from(file, model));
#pragma once

#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/documents/model.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"

namespace millrace {

// The formats.txt of the run that weights are from: a run's folder, its checkpoints or one of them; empty where it was not calibrated.
std::string formats_file_of(const std::string& weights);
// Fails with kMismatch on the formats of another model.
LayerFormats formats_from(const std::string& file, const Model& model);
// `device` in these formats, where it computes in sixteen bits.
std::unique_ptr<Device> with_formats(std::unique_ptr<Device> device, const LayerFormats& formats);

}  // namespace millrace
