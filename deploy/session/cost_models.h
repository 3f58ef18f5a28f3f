// From what people write after --cluster to a ring of known devices and what each of them costs.
//
//   const Catalogue catalogue = catalogue_with(flags.catalogues);
//   const Cluster cluster = cluster_from("u280x8+h200x2", catalogue);
//   const CostModels models = models_for(cluster, catalogue, arithmetic);
//   PlanTask task{.graph = &graph, .cluster = cluster, .models = models.of_devices};     // models must outlive the task
//
// A kind of device is added by one explicit entry in cost_models.cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/device/cost_model.h"
#include "core/documents/catalogue.h"
#include "core/documents/cluster.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/cost/inference_batch.h"
#include "fpga/pe_chain/board_row.h"

namespace millrace {

struct CostModels {
  std::vector<std::unique_ptr<CostModel>> owned;  // one for each kind of board, in the order they first appear
  std::vector<const CostModel*> of_devices;       // one for each device of the cluster
};

// Each model answers under the name its device has in the cluster. Fails with kUsage on names the catalogue does not know,
// with kMalformed on a kind without a cost model or a device that lacks a value.
// `inference`: see fpga_cost_model.h; without streams: for training.
CostModels models_for(const Cluster& cluster, const Catalogue& catalogue, const Arithmetic& arithmetic,
                      const InferenceBatch& inference = {});

// The same for plans of `graph`, which must outlive the models: with full accounting boards have the engines that are generated for its
// layers, with FPDeep's the paper's free counts. `chains`: the boards' engine of recurrent steps, where it is given by hand.
CostModels models_for(const Cluster& cluster, const Catalogue& catalogue, const Arithmetic& arithmetic, Accounting accounting,
                      const Graph& graph, const std::optional<ChainDimensions>& chains = {});

// A shorthand, or the path of a .textproto (anything that ends so or has a slash in it). Devices get the catalogue's
// spelling of their short names. A file says its own links; those of a shorthand have the smaller link_gbps of their two
// neighbours in each direction. Fails with kUsage on unknown devices, suggesting the nearest.
Cluster cluster_from(std::string_view shorthand_or_path, const Catalogue& catalogue);

// A plan with what its engines take. That of a run on one device has no times, for nothing had to be cut: it is planned here, as it was
// run, by the shipped catalogue. Any other comes as it is, and is refused with kMismatch where its engines were edited.
Plan load_timed_plan(const std::filesystem::path& path);

}  // namespace millrace
