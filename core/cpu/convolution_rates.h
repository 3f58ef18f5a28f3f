// Convolutions of a CPU profile by shape: their names in a catalogue, and what stands for a layer. Internal to core/cpu.
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

// What a convolution reaches, and keeps of its weights.
struct ConvolutionRate {
  PhaseEfficiency efficiency;
  double weight_copies = 0;
};

// Finds what stands for a layer: the nearest measured one in channels and positions, at most a factor of four away, at the layer's
// micro-batch. Between two that were measured the time of a micro-batch is a straight line, above the largest the share of the peak stays.
// Below the smallest, and above the largest, the device's own follow those of `others`, which lie on another machine: transforms of weights
// come once per micro-batch on any. Allocates nothing when asked.
class ConvolutionRates {
 public:
  ConvolutionRates(const std::vector<MeasuredConvolution>& own, const std::vector<MeasuredConvolution>& others);
  // Nothing where none is near.
  std::optional<ConvolutionRate> of(const MeasuredConvolution& shape) const;

 private:
  // Kernel and stride; channels and positions.
  using Place = ShapePlace<std::pair<int64_t, int64_t>, 3>;
  struct Curve {
    Place place;
    std::vector<MeasuredConvolution> points;  // ascending in the micro-batch
  };
  static Place place_of(const MeasuredConvolution& shape);
  static std::vector<Curve> curves_of(const std::vector<MeasuredConvolution>& measured);
  static const Curve* nearest(const std::vector<Curve>& curves, const Place& place);
  static void extend(Curve& curve, const Curve& like);

  std::vector<Curve> curves_;
};

// What of its weights a convolution of this shape keeps in Winograd's form when `table` chooses for it.
double weight_copies(const MeasuredConvolution& shape, const KernelTable& table, const std::string& isa);

// Those of core/cpu/convolution_rates.csv for AVX-512 (512) or AVX2 (2), and where they come from.
const std::vector<MeasuredConvolution>& shipped_convolutions(int avx);
std::string shipped_convolutions_origin();
// The file's text as them; `origin` names it in messages. Fails with kMalformed, naming the line.
std::vector<MeasuredConvolution> parse_convolutions(std::string_view text, std::string_view isa, std::string_view origin);

}  // namespace millrace::cpu
