// What a shard costs on an FPGA: FPDeep's engines, one per shard and phase, sized so that a sample is done in one period.
//
//   const std::unique_ptr<CostModel> model = make_fpga_cost_model(catalogue.find("vc709"), {.wire = ElementType::kFixed16});
//   ShardQuestion question{.node = &node, .blocks = blocks, .lifetime = 0.92, .period_seconds = 5e-3};
//   ShardDemand demand = model->demand_of(question);     // dsp, lut, ff, bram_bits, dram_bytes; seconds is 0
//
// Engines: "conv_ce" for convolutions and dense layers, "pe_chain" for recurrent ones; all run side by side. EB is counted
// wherever an error arrives, for the first layer too (six operations per MAC). Embeddings, and layers without weights that
// head a group, have no engine: rows pass as they come.
// With `built`, layers that hardware is generated for have its engines (generated_engines.h): rectangles of lanes, the slices behind a
// sum, and the times of its cycle model; the first layer's EB, which nobody reads, is not there. Without, the paper's free counts.
// A period too short for one cycle per row makes "dsp" 1e30, so that sums over shards stay comparable.
// The element's width, 16 or 32 bits, is that of arithmetic.wire given here; ShardQuestion::arithmetic and ::window are not
// read: what a pipeline of rows holds follows from ::lifetime.
// Memory: activations, line buffers and what the layers after the sum keep are "bram_bits"; a convolution's weights and
// gradients are `parameters` of the same memory; dense layers and embeddings keep theirs off chip ("dram_bytes"); a
// recurrent layer's stay beside the engine (h U needs them at every step), so that a layer too large for the board shows as
// missing bram_bits. Not part of any capacity, but told by cost_of: "bram36" and "uram" (the same memory packed into
// blocks, weights apart as "parameter_bram36"/"parameter_uram"), "lutram_lut", and "dram_bytes_per_second" that weights off
// chip take at this period. FPDeep does not limit the last; compare it with inventory().
// LUTs and flip-flops: fpga/common/cost/fabric_costs.h. The board's interconnection modules come off its capacity.
// A question about the steps of a recurrent layer alone (a block without inputs) is answered with chained elements that load their weights
// for every F and E (chained_steps.h): FP and EB take turns, so the answer is in seconds, as a CPU's, and no period is read.
// Pure once made; thread safe; demand_of allocates nothing. period_seconds of 0, or a lifetime below 0, fail with kUsage.
#pragma once

#include <memory>
#include <optional>

#include "core/device/cost_model.h"
#include "core/documents/catalogue.h"
#include "fpga/cost/generated_engines.h"
#include "fpga/cost/inference_batch.h"
#include "fpga/pe_chain/board_row.h"

namespace millrace {

// `inference` with streams: of a plan for inference, whose recurrent layers get the engine of blocked columns ("sbe", blocked_engines.h)
// with such batches; what it takes of the block RAM counts as the bits of its blocks, and weights from outside take
// seconds of the memory that holds them. cost_of then gives the time of the engine as it is built (fpga/sbe/rtl/cycle_model.h), up to some
// 2% more than the period that was asked for.
// `chains`: the engine of recurrent steps, where it is given by hand; else each layer's is the fastest that fits (chained_steps.h).
// Fails with kUsage when arithmetic.wire has neither 16 nor 32 bits, with kMalformed when the catalogue lacks a value.
std::unique_ptr<CostModel> make_fpga_cost_model(const CatalogueDevice& device, const Arithmetic& arithmetic,
                                                const InferenceBatch& inference = {},
                                                std::shared_ptr<const GeneratedEngines> built = nullptr,
                                                const std::optional<ChainDimensions>& chains = {});

}  // namespace millrace
