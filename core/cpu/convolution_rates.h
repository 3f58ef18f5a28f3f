// Convolutions of a CPU profile by shape: their names in a catalogue, and which of them stands for a layer. Internal to core/cpu.
//
//   efficiency_conv_128to256_8x8_k3s1_b32_forward        channels in and out, map of the output, kernel, stride, micro-batch, phase
//
// Plain functions of their arguments, and the shipped ones, convolution_rates.csv.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cpu/cpu_cost_model.h"
#include "core/cpu/kernel_table.h"
#include "core/cpu/nearest_shape.h"

namespace millrace::cpu {

// Without the phase.
std::string name_of(const MeasuredConvolution& convolution);
// Of a catalogue's device, in its order. Fails with kMalformed on a name that begins like one and is none, or lacks a phase.
std::vector<MeasuredConvolution> convolutions_of(const CatalogueDevice& device);

// The layer as a measurement would be of it, without efficiency; nothing where none is taken.
std::optional<MeasuredConvolution> shape_of(const Node& node, int64_t micro_batch);
std::string weight_copies_name_of(const MeasuredConvolution& convolution);

// Finds, among convolutions, the one that stands for a layer. Allocates nothing when asked.
class NearestConvolution {
 public:
  explicit NearestConvolution(const std::vector<MeasuredConvolution>& measured);
  // Its index; nothing where none is near.
  std::optional<size_t> of(const MeasuredConvolution& shape) const;

 private:
  // Kernel and stride; channels, positions, micro-batch.
  using Place = ShapePlace<std::pair<int64_t, int64_t>, 4>;
  static Place place_of(const MeasuredConvolution& shape);

  std::vector<Place> places_;
};

// What of its weights a convolution of this shape keeps in Winograd's form when `table` chooses for it.
double weight_copies(const MeasuredConvolution& shape, const KernelTable& table, const std::string& isa);

// Those of core/cpu/convolution_rates.csv for AVX-512 (512) or AVX2 (2), and where they come from.
const std::vector<MeasuredConvolution>& shipped_convolutions(int avx);
std::string shipped_convolutions_origin();
// The file's text as them; `origin` names it in messages. Fails with kMalformed, naming the line.
std::vector<MeasuredConvolution> parse_convolutions(std::string_view text, std::string_view isa, std::string_view origin);

}  // namespace millrace::cpu
