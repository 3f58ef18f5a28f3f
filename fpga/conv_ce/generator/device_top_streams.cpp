#include "fpga/conv_ce/generator/device_top_streams.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "fpga/conv_ce/generator/axi_port.h"
#include "fpga/conv_ce/generator/device_top_templates.h"
#include "fpga/conv_ce/generator/device_top_waiting.h"
#include "fpga/conv_ce/generator/stream_templates.h"

namespace millrace {

namespace {

std::string stream_port(size_t shard, std::string_view what) { return fmt::format("m_axi_shard_{}_{}", shard, what); }

// Stretches of `in` (a stream's valid, ready; its data) as `out`, in the order of counts and strides, the innermost first.
std::string permuter(const std::string& name, int64_t lanes, const std::string& in, const std::string& in_data, const std::string& out,
                     const std::vector<std::pair<int64_t, int64_t>>& order) {
  std::string counts;
  for (size_t i = 0; i < order.size(); ++i)
    counts += fmt::format("      .COUNT_{0}({1}),\n      .STRIDE_{0}({2}){3}\n", i, order[i].first, order[i].second,
                          i + 1 == order.size() ? "" : ",");
  return filled(kPermuter, {{"NAME", name},
                            {"PERMUTED", std::to_string(lanes)},
                            {"IN_VALID", in},
                            {"IN_DATA", in_data},
                            {"OUT_WIRES", out},
                            {"OUT_VALID", out},
                            {"ORDER", counts}});
}

}  // namespace

std::string stream_ports(const DeviceDesign& design) {
  std::string text;
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    if (!shard.streams) continue;
    const int64_t bits = shard.streams->beat_bits;
    for (const char* what : {"forward", "back", "gradient"}) {
      if (what == std::string_view("back") && !shard.error_back) continue;
      text += axi_port(stream_port(i, what), bits, what == std::string_view("gradient") ? AxiUse::kReadsAndWrites : AxiUse::kReads);
    }
  }
  return text;
}

void add_weights(const DeviceDesign& design, size_t index, TemplateValues& values) {
  const ShardDesign& shard = design.shards[index];
  const std::string prefix = fmt::format("shard_{}_", index);
  values["PG_ACTIVATIONS"] = prefix + "kept";
  values["PG_ERRORS"] = prefix + "gradient_error";
  values["PG_ERROR_DATA"] = prefix + "lane_error";
  values["SIDE_BY_SIDE"] = "";
  if (!shard.streams) {
    values["KERNELS"] = filled(kKernelMemory, values);
    values["GRADIENTS"] = filled(kGradientMemory, values);
    return;
  }
  const WeightStreams& streams = *shard.streams;
  const ConvolutionShape& s = shard.shape;
  const StreamPlaces places = stream_places(design, index);
  values["BEAT_BITS"] = std::to_string(streams.beat_bits);
  values["STREAM_WORDS"] = std::to_string(streamed_words(shard.engine, s));
  values["KERNEL_BEATS"] = std::to_string(streamed_beats(shard.engine, s, kElementBits, streams.beat_bits));
  values["GRADIENT_BEATS"] = std::to_string(streamed_beats(shard.engine, s, kAccumulatorBits, streams.beat_bits));
  values["LOAD_WORDS"] = std::to_string(shard.engine.load_words());
  const auto stream = [&](std::string_view text, const std::string& who, int64_t place, int64_t sharing, const std::string& passes) {
    values["WHO"] = who;
    const AxiUse use = who == "gradient" ? AxiUse::kReadsAndWrites : AxiUse::kReads;
    values["CONSTANTS"] = axi_constants(stream_port(index, who), streams.beat_bits, use);
    values["CONNECTIONS"] = axi_connections(stream_port(index, who), use);
    values["STREAM"] = who == "forward" ? "0" : "1";
    values["PLACE"] = std::to_string(place);
    values["SHARING"] = std::to_string(sharing);
    values["PASSES"] = filled(passes, values);
    return filled(text, values);
  };
  values["FORWARD_STREAM"] = stream(kKernelStream, "forward", places.kernels, streams.samples, "$P$OUT_HEIGHT");
  values["BACK_STREAM"] =
      shard.error_back
          ? stream(kKernelStream, "back", places.error_back_kernels, streams.samples, "(($P$HEIGHT - 1 + $PAD$) / $S$ - $PAD$ / $S$ + 1)")
          : filled("  assign {$p$streaming[1], $p$stream_faults[1], $p$back_there} = '0;\n  assign $p$back_word = '0;\n", values);
  values["KERNELS"] = filled(kKernelStreams, values);
  values["GRADIENTS"] = stream(kGradientStream, "gradient", places.gradients, streams.gradient_samples, "$P$OUT_HEIGHT");
  const int64_t samples = shard.gradient_samples();
  if (samples == 1) return;
  const int64_t inputs = shard.engine.groups_of_inputs(s.inputs), outputs = shard.engine.groups_of_outputs(s.outputs);
  values["SIDE_BY_SIDE"] =
      "  // Samples that share a pass over the gradients, side by side: as one row of maps.\n" +
      permuter(prefix + "side_activations", shard.engine.input_lanes, prefix + "kept", prefix + "kept", prefix + "side_kept",
               {{s.width, 1}, {samples, inputs * s.height * s.width}, {inputs, s.width}, {s.height, inputs * s.width}}) +
      permuter(prefix + "side_errors", shard.engine.output_lanes, prefix + "gradient_error", prefix + "lane_error", prefix + "side_error",
               {{samples, outputs}, {outputs, 1}});
  values["PG_ACTIVATIONS"] = prefix + "side_kept";
  values["PG_ERRORS"] = values["PG_ERROR_DATA"] = prefix + "side_error";
}

std::string stream_faults(const DeviceDesign& design) {
  std::string faults;
  for (size_t i = 0; i < design.shards.size(); ++i)
    if (design.shards[i].streams)
      faults += fmt::format("{0}{{shard_{1}_stream_faults[2], |shard_{1}_stream_faults[1:0]}}", faults.empty() ? "" : " | ", i);
  if (const std::string outside = outside_faults(design); !outside.empty()) faults += (faults.empty() ? "" : " | ") + outside;
  return faults.empty() ? "  assign stream_faults = 2'b00;\n" : filled(kStreamFaults, {{"FAULTS", faults}});
}

}  // namespace millrace
