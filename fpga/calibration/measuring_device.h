// A device that does what another does and notes how large the numbers get: what a calibration looks at.
//
//   NumberRanges ranges;
//   std::unique_ptr<Device> device = make_measuring_device(make_reference_device(ElementType::kFloat32), ranges);
//   ... a few updates ...
//   ranges.at("conv1").sum;       // the largest in size of conv1's sums, before its activation
//
// Training alone is measured, not evaluation. Sums before a fused activation, and those of a recurrent layer's gates, are computed a
// second time. `ranges` is borrowed
// and grows. Only for devices whose calls are done when they return. Not thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/device/device.h"

namespace millrace {

// The largest in size so far of each kind of a layer's numbers; 0: none was seen.
struct LayerRanges {
  double input = 0;
  double output = 0;
  double sum = 0;  // convolutions and dense layers: before the activation, with the bias
  double weight = 0;
  double hidden_weight = 0;  // recurrent layers: of the state; `sum` is that of a gate then
  double bias = 0;
  double output_error = 0;
  double input_error = 0;
  double gradient = 0;  // of the weight, summed up over a mini-batch
  double bias_gradient = 0;
};
using NumberRanges = std::map<std::string, LayerRanges>;

std::unique_ptr<Device> make_measuring_device(std::unique_ptr<Device> device, NumberRanges& ranges);

}  // namespace millrace
