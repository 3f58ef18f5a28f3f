// Which products of a layer a device makes, and so which parameters it uses.
//
//   if (divided_by_kind(graph, group)) ...                          // x W here, h U and the gates there
//   for (const ParameterUse& use : uses_of(placement, node, p)) ... use.device, use.elements
//
// A recurrent layer is divided by KIND of product: all devices of its group but the last hold blocks of x W, products of all steps
// without dependence between them, over inputs and the sums of all gates, directions one behind the other. The last holds no block: the
// sums arrive there, and it makes the steps, h U, gates, states and projection, and what follows the layer. Each part of x W keeps its
// rows of weight_ih; everything else is used by the last device.
// Where the parameters of the steps are at home on the device before, the steps' device makes F and E alone, as boards do: it loads the
// parameters for every F and every E, and hands a RECORD of its steps back with E, of which the home makes their gradients. Of a step and
// direction a record is h as the step took it; projected: the element that was projected and the error of h behind it, too; of a gru one
// vector more: the error of U h + b of the candidate, where the reset comes before the product r h instead. Zero behind a sample's end.
// Several devices in a row may share the steps: each names its UNITS, the cells of every direction whose gates, states and errors it makes,
// and the first to the last of them cover all. Of U a device loads the rows of its units for F and, as many, their columns for E. At every
// step each tells the others what its units gave out: h in F, in E the errors of the sums, of a gru the error of U h + b of the candidate
// beside them. Every sum lies on one device, so numbers do not depend on how many there are. The last gathers the output, the first the
// errors of all sums and the record. Such steps load their parameters, from the device before the first. Not shared: a gru whose reset
// comes before the product.
// Of a layer that projects, a device makes as large a part of the features as of the cells, from the same place on: of the projection it
// loads their rows for F and the columns of its units for E, and of U the columns of its features for E. A step is then two products with a
// row behind each: in F m, what is projected, of its units, then h of its features; in E the errors of h of its features, then those of its
// units' sums. So that all parts are whole, units come in multiples (grain_of).
// What follows the layer is on the last device of its steps, or on the device behind that one, which has nothing else of the layer
// (Shard::after): the output crosses as it is, and what a board cannot do, such as a batch norm with exact statistics, is done elsewhere.
// Plain functions; they borrow what they are given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/placement.h"

namespace millrace {

bool divided_by_kind(const Graph& graph, const Group& group);

// Where the steps begin in a layer divided by kind: the place of their first shard in the group.
size_t first_steps_of(const Plan& plan, const Group& group);
// Several devices share them.
bool shares_steps(const Plan& plan, const Graph& graph, const Group& group);
// Errors that a step gives out of each cell: one for each gate, of a gru one more, the candidate's u.
int64_t error_vectors_of(const Recurrent& cell);
// Cells whose steps a device makes are multiples of it: 1, but of a layer that projects, whose features they divide in the same proportion.
int64_t grain_of(const Recurrent& cell);
// The features of h that a device with those cells makes: the cells, or as large a part of what they are projected to.
ChannelRange features_of(const Recurrent& cell, const ChannelRange& units);

// What devices that share the steps tell each other at a step, row after row, each behind one of its products.
struct StateRow {
  std::string_view ending;   // of its tensor's name: ":h"
  int64_t vectors = 1;       // numbers of each channel
  bool of_features = false;  // its channels are what the cells are projected to, else the cells
};
// In F ":h", of a layer that projects ":m" before it; in E ":delta", there ":dh" before it.
std::vector<StateRow> state_rows_of(const Recurrent& cell, bool errors);
ChannelRange channels_of(const Recurrent& cell, const StateRow& row, const ChannelRange& units);
// Of a sample, both directions'.
int64_t elements_of(const Recurrent& cell, const StateRow& row, const ChannelRange& units);
std::string state_name(std::string_view layer, const StateRow& row);  // "rnn1:h"
// The layer of a tensor that such rows are of; empty: it is none.
std::string_view layer_of_state(std::string_view tensor);
bool is_forward_state(std::string_view tensor);

// What a step on `device` waits for the rows of those that share it, from device `first` to `last`, each of so many bits at most: until
// the last of them has come from the farthest, passed on link by link.
double exchange_seconds(std::span<const Link> links, int64_t first, int64_t last, int64_t device, int64_t row_bits);
// Of all rows of a step in F and in E, where no device has more than so many cells.
double exchange_seconds(const Node& recurrent, std::span<const Link> links, int64_t first, int64_t last, int64_t device, int64_t cells,
                        int64_t bits_of_cell);
// Of a sample, all its steps' in F and in E, on one of the devices that share them.
double exchange_seconds(const Plan& plan, const Graph& graph, const Group& group, int64_t device);

// The device that makes the gradients of the steps' parameters, of a layer whose steps another one makes; else -1.
int64_t gradients_of_steps_at(const Plan& plan, const Graph& graph, const Group& group);
// The device loads parameters for every F and every E. Shards are ordered by device.
bool loads_every_pass(const Plan& plan, int64_t device);
// The homes of all that the steps of a recurrent layer use, on the device before theirs: PlanRequest::remote_homes.
std::vector<ParameterHome> homes_before_steps(const Node& recurrent, int64_t steps_device);
// Of steps that devices from `first_device` on share.
std::vector<ParameterHome> homes_before_steps(const Node& recurrent, int64_t first_device, std::span<const ChannelRange> units);
int64_t record_channels_of(const Node& recurrent);
std::string record_name(std::string_view layer);  // "rnn1:record"

// Of a recurrent layer: 0 or 1 where the parameter multiplies the inputs of that direction, else -1.
int64_t input_direction_of(const ParameterSpec& parameter);
int64_t directions_of(const Node& recurrent);
// The part of a block that lies in a direction's sums, counted from the first of them: rows of its weight_ih. Empty: none of it does.
std::optional<Block> within_direction(const Node& recurrent, int64_t direction, const Block& block);

// A device that uses a parameter, and how many elements of it; whoever uses nothing is left out.
struct ParameterUse {
  int64_t device = 0;
  int64_t elements = 0;
};
std::vector<ParameterUse> uses_of(const Placement& placement, int64_t node, size_t parameter);

}  // namespace millrace
