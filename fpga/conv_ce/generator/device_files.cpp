#include "fpga/conv_ce/generator/device_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "fpga/common/generator/kernel_packaging.h"
#include "fpga/common/generator/memory_images.h"
#include "fpga/common/generator/text_template.h"
#include "fpga/conv_ce/arithmetic/formats_file.h"
#include "fpga/conv_ce/generator/control_registers.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/rtl_modules.h"

namespace millrace {

namespace {

// All ones where an element means something: lanes beyond the last channel carry anything.
std::vector<int16_t> meaningful(const BeatOrder& order, int64_t samples) {
  const std::vector<int16_t> ones(to_size(order.channels * order.height * order.width), -1);
  const std::vector<int16_t> one_sample = beats_of_map(order, ones);
  std::vector<int16_t> all;
  for (int64_t sample = 0; sample < samples; ++sample) all.insert(all.end(), one_sample.begin(), one_sample.end());
  return all;
}

std::vector<int16_t> mask_of(const DeviceDesign& design, const DeviceVectors& vectors, const std::string& port) {
  const DeviceDesign cropped = *cropped_design(design, vectors.rows);
  const ShardDesign& head = cropped.shards.front();
  const ShardDesign& tail = cropped.shards.back();
  BeatOrder order{.lanes = design.lanes};
  const auto is = [&order](int64_t channels, int64_t height, int64_t width) {
    order.channels = channels;
    order.height = height;
    order.width = width;
  };
  if (port == "m_partial") {
    is(tail.outputs.end, tail.shape.out_height(), tail.shape.out_width());
  } else if (port == "m_raw_error") {
    is(head.sums_before(), head.shape.out_height(), head.shape.out_width());
    order.block_rows = head.error_block_rows();
    order.first_block_rows = head.error_first_block_rows();
  } else {
    const PortOfMap found = port_of_map(cropped, port);
    is(found.channels.size(), found.map->height, found.map->width);
  }
  return meaningful(order, vectors.samples);
}

// All ones where a gradient means something: kernels of channels that do not exist collect what the lanes beyond the last
// channel carry.
std::vector<int32_t> gradient_mask(const ShardDesign& shard, size_t elements) {
  std::vector<int32_t> mask(elements);
  const std::vector<int16_t> of_flat = shard.flat ? meaningful(*shard.flat, 1) : std::vector<int16_t>{};
  for (int64_t output = 0; output < shard.shape.outputs; ++output)
    for (int64_t input = 0; input < shard.shape.inputs / shard.shape.groups; ++input)
      for (int64_t tap = 0; tap < shard.engine.taps(); ++tap)
        mask[parameter_place(shard.engine, shard.shape, output, input, tap)] = shard.flat ? item(of_flat, input) : -1;
  return mask;
}

// Zero beyond the last channel.
std::vector<int16_t> filled_lanes(std::vector<int16_t> channels, int64_t lanes) {
  channels.resize(to_size(rounded_up(static_cast<int64_t>(channels.size()), lanes)));
  return channels;
}

// Of a running batch norm, word by word as device_top_after_sum.h takes them.
void append_running(const ShardDesign& shard, std::vector<int16_t>& elements) {
  const auto channels = to_size(shard.groups(shard.layer_outputs) * shard.lanes), lanes = to_size(shard.lanes);
  std::vector<int32_t> levels = shard.norm.level;
  levels.resize(channels);
  const std::vector<int16_t> parts[] = {filled_lanes(shard.scale, shard.lanes), filled_lanes(shard.bias, shard.lanes),
                                        filled_lanes(shard.norm.centre, shard.lanes), filled_lanes(shard.norm.slope, shard.lanes)};
  for (size_t first = 0; first < channels; first += lanes) {
    for (const std::vector<int16_t>& part : parts)
      for (size_t lane = 0; lane < lanes; ++lane) elements.push_back(part[first + lane]);
    for (size_t lane = 0; lane < lanes; ++lane)
      for (const int half : {0, 16}) elements.push_back(static_cast<int16_t>(levels[first + lane] >> half));
    elements.push_back(static_cast<int16_t>(shard.norm.slope_shift << 8 | shard.scale_shift));
  }
}

LayerFormats formats_of(const DeviceDesign& design) {
  LayerFormats formats;
  for (const ShardDesign& shard : design.shards) formats[shard.layer] = shard.formats;
  return formats;
}

bool goes_forward(const std::string& port) { return port.find("error") == std::string::npos; }

// What goes forward through the ring comes from upstream, and goes downstream.
PackagedKernel packaged(const DeviceDesign& design) {
  PackagedKernel kernel{.kernel = xrt::kKernelName,
                        .instance = xrt::kInstanceName,
                        .module = design.module_name(),
                        .board = design.board,
                        .stream_bits = design.lanes * kElementBits,
                        .arguments = xrt::kernel_arguments()};
  for (const std::string& name : input_streams(design)) kernel.inputs.push_back({.name = name, .upstream = goes_forward(name)});
  for (const std::string& name : output_streams(design)) kernel.outputs.push_back({.name = name, .upstream = !goes_forward(name)});
  for (const MemoryOutside& memory : memories_outside(design))
    kernel.memories.push_back({.name = "m_axi_" + memory.name, .bits = memory.beat_bits});
  return kernel;
}

constexpr std::string_view kMakefile = R"make(# Checks and simulations of $MODULE$; both simulators run the same testbench.
RTL := $(wildcard rtl/*.sv)
TOP := $MODULE$

all: lint verilator

lint:  # without waivers
	verilator --lint-only -Wall --top-module $(TOP) $(RTL)

verilator:
	verilator --binary --timing -j 2 -O3 -Wno-fatal --Mdir obj_verilator --top-module testbench -o testbench $(RTL) testbench.sv > verilator.log
	./obj_verilator/testbench | tee verilator.out
	@grep -q '^PASS' verilator.out

icarus:
	iverilog -g2012 -Wall -Wno-timescale -o testbench.vvp -s testbench $(RTL) testbench.sv
	vvp testbench.vvp | tee icarus.out
	@grep -q '^PASS' icarus.out

clean:
	rm -rf obj_verilator verilator.log verilator.out testbench.vvp icarus.out

.PHONY: all lint verilator icarus clean
)make";

// What stands in the way of a board, as far as is known here.
std::string on_a_board(const DeviceDesign& design, const std::string& lacks, const std::string& homes) {
  const WeightsOnChip off_chip = weights_planned_off_chip(design);
  std::string text;
  if (!lacks.empty())
    text += fmt::format("**For simulation alone: it takes more than {} has, {} (modelled; resources.json).**\n", design.board, lacks);
  if (!off_chip.layers.empty())
    text += fmt::format(
        "The plan keeps the weights of {} in the board's own memory, {:.1f} MB with gradients and the optimizer's state; this hardware has "
        "them "
        "on\n"
        "the chip, {:.1f} BRAM36. What the plan says of memory on the chip is not what is generated here.\n",
        off_chip.layers, static_cast<double>(off_chip.off_chip_bytes) / 1e6, off_chip.bram36);
  if (!off_chip.streamed.empty()) {
    text += fmt::format(
        "Weights and gradients of {} lie in the board's own memory, packed, from `parameters` on; {:.3g} MB of them move for a sample, "
        "through "
        "ports\nof their own (m_axi_shard_*). A mini-batch has a multiple of {} samples.\n\n"
        "| shard | bits of a port | kernels, FP's order, at | kernels, EB's order, at | gradients at |\n|---|---|---|---|---|\n",
        off_chip.streamed, off_chip.streamed_bytes_per_sample / 1e6, design.sample_multiple());
    for (size_t i = 0; i < design.shards.size(); ++i) {
      if (!design.shards[i].streams) continue;
      const StreamPlaces places = stream_places(design, i);
      text += fmt::format("| {} | {} | {:#x} | {} | {:#x} |\n", i, design.shards[i].streams->beat_bits, places.kernels,
                          design.shards[i].error_back ? fmt::format("{:#x}", places.error_back_kernels) : "-", places.gradients);
    }
    text += "\n";
  }
  const StageCycles slowest = slowest_stage(device_cycles(design));
  text += fmt::format("Its slowest stage, {} of {}, takes {} cycles a sample (modelled){}.\n", slowest.stage, slowest.layer, slowest.cycles,
                      off_chip.streamed.empty() ? "" : "; the board's memory may take longer, which `millrace rtl --check` counts");
  if (!homes.empty()) text += fmt::format("Beware: {}.\n", homes);
  return text.empty() ? text : text + "\n";
}

// Of a mini-batch: what dropout draws from holds the samples of one.
int64_t samples_of_test(const DeviceDesign& design, const DeviceFileOptions& options) {
  return rounded_up(std::min(options.test_samples, design.mini_batch), design.sample_multiple());
}

std::string where_activations_are(const DeviceDesign& design) {
  const WaitsOutside outside = waits_outside(design);
  if (outside.memories.empty()) return "Activations stay on the chip or on the streams.";
  std::string memories;
  for (const std::string& memory : outside.memories) memories += (memories.empty() ? "" : ", ") + memory;
  return fmt::format(
      "Activations stay on the chip or on the streams, but for\nwhat waits for errors in the memory outside (outside_fifo.sv): {}. From "
      "`parameters` "
      "on the\ndevice reaches {} bytes, which have to be its own.",
      memories, bytes_reached(design));
}

std::string readme(const DeviceDesign& design, int64_t rows, const DeviceFileOptions& options) {
  std::string shards =
      "| shard | layer | its part | lanes, in x out | multipliers (FP) | planned (FP) | cycles of a row, FP / PG (modelled) "
      "|\n|---|---|---|---|---|---|---|\n";
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    shards +=
        fmt::format("| {} | {} | {} | {} x {} | {} | {} | {} / {} |\n", i, shard.layer, shard.channels_text(), shard.engine.input_lanes,
                    shard.engine.output_lanes, shard.engine.tiles() * shard.engine.taps(), shard.planned_multipliers,
                    forward_row_cycles(shard.engine, shard.shape), gradient_row_cycles(shard.engine, shard.shape));
  }
  for (const ShardDesign& shard : design.shards)
    if (shard.outputs_divided)
      shards += fmt::format(
          "\n{} is divided by outputs: partial sums are those of all outputs up to this device's, and so are the errors of the raw "
          "sum.{}\n",
          shard.layer,
          shard.owner ? " Bias and scale of all outputs are here, and the gradients of all biases."
                      : " Its last device has bias and scale, and the gradients of all biases.");
  std::string numbers =
      "| shard | activations | weights | sums, partial sums and biases | errors | errors of the input | gradients (of 32 bits) "
      "|\n|---|---|---|---|---|---|---|\n";
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const EngineFormats& f = design.shards[i].formats;
    numbers += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", i, f.activation.fraction_bits, f.weight.fraction_bits,
                           f.sum.fraction_bits, f.error.fraction_bits, f.input_error.fraction_bits, f.gradient_fraction_bits());
  }
  const int64_t samples = samples_of_test(design, options);
  return fmt::format(
      "# {0}: device {1} of the ring ({2}), trains its part of {3}\n\n{13}{4}\n"
      "Streams carry {5} channels of one pixel per beat, for the whole ring. Multipliers are those of each phase's engine; the plan's\n"
      "are what its cost model asked for. Generated engines are rectangles of lanes, the smallest that keep the plan's pace, with\n"
      "adapters between them and the streams.\n\n"
      "| file | what it is |\n|---|---|\n"
      "| rtl/{0}.sv | the device's top level: its shards, connected |\n"
      "| rtl/*.sv | the modules, the same for every device; each begins with what it does |\n"
      "| images/shard_N_parameters.hex | the shard's kernels: a word per line, kernels of the first tiles in the low bits |\n"
      "| images/shard_N_scales.hex, shard_N_offsets.hex | per channel group: what follows the sum: its scale (1, or a folded batch "
      "norm's), and what is added |\n"
      "| testbench.sv, vectors/ | {6} of {7} rows, with what the functional model makes of them |\n"
      "| Makefile | `make lint`, `make verilator`, `make icarus` |\n"
      "| kernel.xml, package.tcl, connectivity.cfg | for the vendor's tools, after their documentation; unverified: none was at hand |\n"
      "| vectors/memory.hex | the memory outside: parameters, scales and offsets, and what dropout draws from, as memory_mover.sv reads "
      "them, {9} elements of 16 bits "
      "|\n"
      "| vectors/start.hex | what the host writes into the registers to start the testbench's mini-batch: place, value |\n"
      "| registers.txt | the control registers |\n"
      "| formats.txt | fraction bits by layer, as a run's file of that name has them |\n"
      "| resources.json | DSP slices, block RAM, LUTs and flip-flops by layer and module, beside what the plan reckons with |\n\n"
      "Between mini-batches the host updates: it writes parameters to the memory outside, in that order, and reads {10} gradients of\n"
      "32 bits from there, behind a header of {11} bytes (registers `parameters`, `result`, `flags`), or goes through the window of\n"
      "registers element by element. {14} The kernel's name, {12}, its arguments and\n"
      "their places are those that the host's code looks for.\n\n"
      "Fraction bits of the sixteen that a number has:\n\n{8}\n"
      "Unverified: clock rate, placement, network and memory of a board. A testbench of whole maps: `--test-rows`.\n",
      design.module_name(), design.index, design.board, design.model, shards, design.lanes,
      fmt::format("{} sample{}", samples, samples == 1 ? "" : "s"), rows, numbers, all_elements(loaded_regions(design)),
      all_elements(stored_regions(design)), sizeof(xrt::ResultHeader), xrt::kKernelName, on_a_board(design, options.lacks, options.homes),
      where_activations_are(design));
}

}  // namespace

std::vector<int16_t> outside_parameters(const DeviceDesign& design) {
  std::vector<int16_t> elements;
  for (const MemoryRegion& region : loaded_regions(design)) {
    const ShardDesign& shard = design.unit(to_size(region.shard));
    if (region.kind == 0) {
      const std::vector<int16_t> words = parameter_words(shard.engine, shard.shape, shard.weight);
      elements.insert(elements.end(), words.begin(), words.end());
      continue;
    }
    if (region.kind == 2) {
      for (const uint64_t word : draws_of_test(shard, region.words - kDrawWords).words())
        for (int part = 0; part < 4; ++part) elements.push_back(static_cast<int16_t>(word >> (16 * part)));
      continue;
    }
    if (shard.running) {
      append_running(shard, elements);
      continue;
    }
    const std::vector<int16_t> scales = filled_lanes(shard.scale, design.lanes), offsets = filled_lanes(shard.bias, design.lanes);
    for (int64_t first = 0; first < region.words * design.lanes; first += design.lanes)
      for (const std::vector<int16_t>* half : {&scales, &offsets})
        elements.insert(elements.end(), half->begin() + first, half->begin() + first + design.lanes);
  }
  return elements;
}

OutsideGradients outside_gradients(const DeviceDesign& design, const DeviceVectors& vectors) {
  OutsideGradients all;
  for (const MemoryRegion& region : stored_regions(design)) {
    const auto shard = to_size(region.shard);
    const ShardGradients& gradients = vectors.gradients[shard];
    std::vector<int32_t> values = region.kind == 1 ? gradients.words : region.kind == 2 ? gradients.bias : gradients.gathered;
    std::vector<int32_t> mask =
        region.kind == 1 ? gradient_mask(design.shards[shard], values.size()) : std::vector<int32_t>(values.size(), -1);
    if (region.kind == 3) mask.resize(to_size(8 * design.shards[shard].layer_outputs));
    values.resize(to_size(region.all_elements()));
    mask.resize(values.size());
    all.values.insert(all.values.end(), values.begin(), values.end());
    all.mask.insert(all.mask.end(), mask.begin(), mask.end());
  }
  return all;
}

DeviceFiles write_device(const DeviceDesign& design, const std::filesystem::path& folder, const DeviceFileOptions& options) {
  const int64_t all_rows = design.maps.front().height;
  const int64_t fewest = fewest_rows(design);
  const int64_t rows = options.test_rows == 0 ? fewest : options.test_rows;
  if (rows < fewest || rows > all_rows)
    fail(ErrorCode::kUsage, "--test-rows {}: between {} and {} rows leave every layer of device {} something to do", rows, fewest, all_rows,
         design.index);
  if (!cropped_design(design, rows))
    fail(ErrorCode::kUsage, "--test-rows {}: maps of device {} that are joined come out unequal; {} rows do", rows, design.index, fewest);
  const int64_t samples = samples_of_test(design, options);
  const DeviceVectors vectors = device_vectors(design, rows, samples, options.seed);

  DeviceFiles written;
  written.test_rows = rows;
  make_folders(folder / "rtl");
  make_folders(folder / "images");
  make_folders(folder / "vectors");
  const auto write = [&](const std::string& name, const std::string& content) {
    write_atomically(folder / name, std::string_view(content));
    written.names.push_back(name);
    written.bytes += static_cast<int64_t>(content.size());
  };
  for (const RtlModule& module : rtl_modules()) write(fmt::format("rtl/{}", module.file), std::string(module.text));
  write("rtl/control_registers.sv", control_registers_sv());
  write(fmt::format("rtl/{}.sv", design.module_name()), device_top(design));
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    const int64_t word = shard.engine.kernels_per_word * shard.engine.taps();
    const std::vector<int16_t> parameters = parameter_words(shard.engine, shard.shape, shard.weight);
    if (shard.streams) {
      const int64_t beat = shard.streams->beat_bits / kElementBits;
      write(fmt::format("vectors/shard_{}_forward.hex", i), hex_words<int16_t>(filled_lanes(parameters, beat), beat));
      if (shard.error_back)
        write(fmt::format("vectors/shard_{}_back.hex", i),
              hex_words<int16_t>(filled_lanes(parameter_words_of_error_back(shard.engine, shard.shape, parameters), beat), beat));
    } else {
      write(fmt::format("images/shard_{}_parameters.hex", i), hex_words<int16_t>(parameters, word));
    }
    const std::vector<int32_t> mask = gradient_mask(shard, vectors.gradients[i].words.size());
    write(fmt::format("vectors/shard_{}_gradients.hex", i), hex_words<int32_t>(vectors.gradients[i].words, word));
    write(fmt::format("vectors/shard_{}_gradients.hex.mask", i), hex_words<int32_t>(mask, word));
    write(fmt::format("vectors/shard_{}_bias_gradients.hex", i), hex_words<int32_t>(vectors.gradients[i].bias, 1));
  }
  for (size_t i = 0; i < design.units(); ++i) {
    const ShardDesign& shard = design.unit(i);
    if (shard.owner && shard.response) {
      std::vector<int16_t> entries;
      for (size_t entry = 0; entry < shard.response->p.size(); ++entry)
        for (const uint16_t half : {shard.response->p[entry], shard.response->q[entry]}) entries.push_back(static_cast<int16_t>(half));
      write(fmt::format("images/shard_{}_response.hex", i), hex_words<int16_t>(entries, 2));
    }
    if (shard.owner && shard.smooth) {
      std::vector<int16_t> entries;
      for (size_t entry = 0; entry < SmoothActivation::kEntries; ++entry)
        for (const uint16_t half : {shard.smooth->bases[entry], shard.smooth->slopes[entry]}) entries.push_back(static_cast<int16_t>(half));
      write(fmt::format("images/shard_{}_activation.hex", i), hex_words<int16_t>(entries, 2));
    }
    if (shard.owner) {
      write(fmt::format("images/shard_{}_scales.hex", i), hex_words<int16_t>(filled_lanes(shard.scale, design.lanes), design.lanes));
      write(fmt::format("images/shard_{}_offsets.hex", i), hex_words<int16_t>(filled_lanes(shard.bias, design.lanes), design.lanes));
    }
  }
  for (const StreamVectors& stream : vectors.inputs)
    write(fmt::format("vectors/{}.hex", stream.name), hex_words<int16_t>(stream.beats, stream.lanes));
  for (const StreamVectors& stream : vectors.outputs) {
    write(fmt::format("vectors/{}.hex", stream.name), hex_words<int16_t>(stream.beats, stream.lanes));
    write(fmt::format("vectors/{}.hex.mask", stream.name), hex_words<int16_t>(mask_of(design, vectors, stream.name), stream.lanes));
  }
  write("vectors/memory.hex", hex_memory(outside_parameters(design), memory_places(design).parameters));
  const OutsideGradients outside = outside_gradients(design, vectors);
  write("vectors/start.hex", register_writes(xrt::writes_of(test_run(design, vectors.samples))));
  write("vectors/memory_gradients.hex", hex_memory(outside.values, 0));
  write("vectors/memory_gradients.hex.mask", hex_memory(outside.mask, 0));
  write("testbench.sv", device_testbench(design, vectors));
  write("Makefile", filled(kMakefile, {{"MODULE", design.module_name()}}));
  const PackagedKernel kernel = packaged(design);
  write("kernel.xml", kernel_xml(kernel));
  write("package.tcl", package_tcl(kernel));
  write("connectivity.cfg", connectivity(kernel));
  write("registers.txt", registers_text());
  write("formats.txt", text_of(formats_of(design)));
  write("README.md", readme(design, rows, options));
  return written;
}

}  // namespace millrace
