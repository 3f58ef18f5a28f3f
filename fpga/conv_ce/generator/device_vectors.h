// What goes into a device and what must come out, by the functional model: the testbench's stimuli and expectations.
//
//   const DeviceVectors vectors = device_vectors(design, /*rows=*/8, /*samples=*/2, /*seed=*/1);
//   vectors.inputs[0].name;   // "s_activation"
//
// Stimuli are random, or given: what a neighbour sends. A map of fewer rows than the layer's keeps the simulation short: every row is
// alike to the hardware.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fpga/conv_ce/arithmetic/fixed_dropout.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

struct StreamVectors {
  std::string name;            // of the port
  std::vector<int16_t> beats;  // [beat][lane]
  int64_t lanes = 1;
  int64_t count() const { return static_cast<int64_t>(beats.size()) / lanes; }
};

struct ShardGradients {
  std::vector<int32_t> words;     // the gradient buffer, element by element
  std::vector<int32_t> bias;      // [output group][lane]
  std::vector<int32_t> gathered;  // by a running batch norm: [output group][lane][sum][low, high]
};

struct DeviceVectors {
  int64_t rows = 0;  // of the device's input
  int64_t samples = 1;
  std::vector<StreamVectors> inputs;
  std::vector<StreamVectors> outputs;
  std::vector<ShardGradients> gradients;  // per shard
};

// What a shard's dropout draws from in a test: samples of no order.
DropoutDraws draws_of_test(const ShardDesign& shard, int64_t samples);

// The design with maps cropped to an input of `rows` rows, the others in proportion; nothing where that is no whole row of one of them,
// or maps that are joined come out unequal.
std::optional<DeviceDesign> cropped_design(const DeviceDesign& design, int64_t rows);
// The fewest rows that leave every layer something to do.
int64_t fewest_rows(const DeviceDesign& design);

// `given`: inputs that are not random, all samples of them.
DeviceVectors device_vectors(const DeviceDesign& design, int64_t rows, int64_t samples, uint64_t seed,
                             const std::vector<StreamVectors>& given = {});

}  // namespace millrace
