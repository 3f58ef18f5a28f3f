// `millrace study --engine pe_chain`: the recurrent part of a model's layers on one board of chained elements, and on several in a row.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/graph/graph.h"
#include "core/graph/zoo.h"
#include "deploy/command/line/csv.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/devices/hardware.h"
#include "deploy/session/catalogue_registry.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/pe_chain/board_row.h"

namespace millrace {
namespace {

constexpr int64_t kMostBoards = 6;
constexpr double kMicro = 1e6, kCableSeconds = 0.5e-6;  // chosen: of a cable between neighbours

struct LayerRows {
  std::string layer;
  RecurrentSize size;
  struct Row {
    int64_t boards = 1;
    std::optional<BoardRow> found;
    std::string why;
  };
  std::vector<Row> rows;

  const BoardRow* fastest() const {
    const BoardRow* best = nullptr;
    for (const Row& row : rows)
      if (row.found &&
          (best == nullptr || row.found->forward_seconds + row.found->back_seconds < best->forward_seconds + best->back_seconds))
        best = &*row.found;
    return best;
  }
};

LayerRows rows_of(const Node& node, const ChainBoard& board, int bits) {
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable,
         "layer \"{}\": a GRU whose reset gate comes before the recurrent product needs two products a step, one behind the other; "
         "the engine pe_chain makes one: set reset_after",
         node.layer.name);
  LayerRows made{.layer = node.layer.name, .size = {cell.hidden, cell.features(), cell.cell}, .rows = {}};
  for (int64_t boards = 1; boards <= std::min(kMostBoards, cell.hidden); ++boards) {
    LayerRows::Row row{.boards = boards, .found = {}, .why = {}};
    row.found = best_row(made.size, board, boards, bits, &row.why);
    made.rows.push_back(std::move(row));
  }
  return made;
}

bool alike(const LayerRows& a, const LayerRows& b) {
  return a.size.cells == b.size.cells && a.size.fed_back == b.size.fed_back && a.size.cell == b.size.cell;
}

// Rows that do not fit, those with one reason together: "2 to 6 boards do not fit: ...".
std::string refusals(const LayerRows& layer) {
  std::string text;
  for (size_t first = 0, end = 0; first < layer.rows.size(); first = end) {
    end = first + 1;
    if (layer.rows[first].found) continue;
    while (end < layer.rows.size() && !layer.rows[end].found && layer.rows[end].why == layer.rows[first].why) ++end;
    const int64_t from = layer.rows[first].boards, to = layer.rows[end - 1].boards;
    if (from == to)
      text += fmt::format("{} {} not fit: {}\n", from, from == 1 ? "board does" : "boards do", layer.rows[first].why);
    else
      text += fmt::format("{} to {} boards do not fit: {}\n", from, to, layer.rows[first].why);
  }
  return text;
}

std::string text_of(const std::vector<LayerRows>& layers, const ChainBoard& board, const std::string& model, int bits) {
  std::string text =
      fmt::format("{} on {} with the engine pe_chain, {} bits (modelled, at {:.0f} MHz; one direction of each layer, a step of a sample)\n",
                  model, board.name, bits, board.clock_hz / 1e6);
  for (size_t first = 0, end = 0; first < layers.size(); first = end) {
    const LayerRows& layer = layers[first];
    while (end < layers.size() && alike(layer, layers[end])) ++end;
    text += fmt::format("\n{}: {} cells, {} fed back, {} gates\n",
                        end - first == 1 ? layer.layer : fmt::format("{} to {}, {} alike", layer.layer, layers[end - 1].layer, end - first),
                        layer.size.cells, layer.size.fed_back, layer.size.gates());
    if (layer.size.fed_back != layer.size.cells) text += "two products a step on the same elements, which wait for each other\n";
    std::vector<std::string> columns = {
        "boards", "elements a unit", "weights an element", "DSP", "half blocks", "cycles forward", "back", "us forward", "us back", ""};
    if (board.uram > 0) columns.insert(columns.begin() + 4, "UltraRAM");
    TextTable table(columns, 0);
    const BoardRow* best = layer.fastest();
    for (const LayerRows::Row& row : layer.rows) {
      if (!row.found) continue;
      const BoardRow& r = *row.found;
      std::vector<std::string> cells = {fmt::format("{}", r.boards),
                                        fmt::format("{}", r.elements),
                                        fmt::format("{}", r.words),
                                        fmt::format("{:.0f}", r.dsp),
                                        fmt::format("{:.0f}", r.half_blocks),
                                        fmt::format("{}", r.forward_cycles),
                                        fmt::format("{}", r.back_cycles),
                                        fmt::format("{:.2f}", kMicro * r.forward_seconds),
                                        fmt::format("{:.2f}", kMicro * r.back_seconds),
                                        &r == best ? "fastest" : ""};
      if (board.uram > 0) cells.insert(cells.begin() + 4, fmt::format("{:.0f}", r.urams));
      table.add(std::move(cells));
    }
    if (best != nullptr) text += table.text();
    text += refusals(layer);
  }
  return text;
}

std::string json_of(const std::vector<LayerRows>& layers, const ChainBoard& board, const std::string& model, int bits) {
  Json json = {{"engine", "pe_chain"},
               {"model", model},
               {"device", board.name},
               {"bits", bits},
               {"origin", "modelled"},
               {"limits",
                {{"dsp", board.dsp},
                 {"bram36", board.bram36},
                 {"uram", board.uram},
                 {"clock_hz", board.clock_hz},
                 {"cable_bits_per_second", board.cable_bits_per_second},
                 {"cable_seconds", board.cable_seconds}}},
               {"constants",
                {{{"name", "port_bits"}, {"value", kPortBits}, {"origin", "paper"}},
                 {{"name", "usable_dsp"}, {"value", kUsableDsp}, {"origin", "projected"}},
                 {{"name", "usable_memory"}, {"value", kUsableMemory}, {"origin", "projected"}},
                 {{"name", "cable_seconds"}, {"value", kCableSeconds}, {"origin", "chosen"}}}},
               {"layers", Json::array()}};
  for (const LayerRows& layer : layers) {
    Json rows = Json::array();
    for (const LayerRows::Row& row : layer.rows) {
      if (!row.found) {
        rows.push_back({{"boards", row.boards}, {"fits", false}, {"why", row.why}});
        continue;
      }
      const BoardRow& r = *row.found;
      rows.push_back({{"boards", r.boards},
                      {"fits", true},
                      {"elements", r.elements},
                      {"words", r.words},
                      {"dsp", r.dsp},
                      {"uram", r.urams},
                      {"bram18", r.half_blocks},
                      {"forward_cycles", r.forward_cycles},
                      {"back_cycles", r.back_cycles},
                      {"forward_seconds", r.forward_seconds},
                      {"back_seconds", r.back_seconds}});
    }
    const BoardRow* best = layer.fastest();
    json["layers"].push_back({{"layer", layer.layer},
                              {"cells", layer.size.cells},
                              {"fed_back", layer.size.fed_back},
                              {"gates", layer.size.gates()},
                              {"fastest_boards", best != nullptr ? Json(best->boards) : Json(nullptr)},
                              {"rows", std::move(rows)}});
  }
  return json_text(json);
}

std::string csv_of(const std::vector<LayerRows>& layers) {
  std::string text = "layer,boards,elements,words,dsp,uram,bram18,forward_cycles,back_cycles,forward_seconds,back_seconds\n";
  for (const LayerRows& layer : layers)
    for (const LayerRows::Row& row : layer.rows)
      if (row.found)
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(layer.layer), row.boards, row.found->elements, row.found->words,
                            csv_number(row.found->dsp), csv_number(row.found->urams), csv_number(row.found->half_blocks),
                            row.found->forward_cycles, row.found->back_cycles, csv_number(row.found->forward_seconds),
                            csv_number(row.found->back_seconds));
  return text;
}

}  // namespace

int run_study_pe_chain(const StudyFlags& flags) {
  static const std::vector<std::string> kWith = {"--engine", "--model", "--device", "--bits", "--json", "--out", "--catalogue"};
  for (const std::string& name : flags.given)
    if (std::ranges::find(kWith, name) == kWith.end())
      fail(ErrorCode::kUsage, "{} has no effect with --engine pe_chain; leave one of the two out", name);
  if (flags.model.empty() || flags.device.empty()) fail(ErrorCode::kUsage, "--engine wants --model and --device too");
  const int64_t bits = flags.bits.empty() ? 16 : flags.bits.front();
  if (flags.bits.size() > 1 || (bits != 16 && bits != 32))
    fail(ErrorCode::kUsage, "--bits with --engine pe_chain is 16 (fixed point) or 32 (floating point)");
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  const CatalogueDevice& device = catalogue.find(flags.device);
  if (hardware_of(device) != Hardware::kFpga) fail(ErrorCode::kUsage, "--engine pe_chain is an FPGA's, and {} is none", device.name);
  const FpgaResources resources = fpga_resources_of(device, bits);
  const ChainBoard board{.name = resources.name,
                         .dsp = resources.dsps,
                         .bram36 = resources.bram36,
                         .uram = resources.urams,
                         .clock_hz = static_cast<double>(resources.clock_hz),
                         .cable_bits_per_second = 1e9 * device.value("link_gbps"),
                         .cable_seconds = kCableSeconds};
  const Graph graph(find_model(flags.model));
  std::vector<LayerRows> layers;
  for (const Node& node : graph.nodes())
    if (std::holds_alternative<Recurrent>(node.layer.operation)) layers.push_back(rows_of(node, board, static_cast<int>(bits)));
  if (layers.empty()) fail(ErrorCode::kUsage, "{} has no recurrent layer, and the engine pe_chain computes nothing else", flags.model);
  const std::string json = json_of(layers, board, flags.model, static_cast<int>(bits));
  write_out(flags.json ? json : text_of(layers, board, flags.model, static_cast<int>(bits)));
  if (!flags.out.empty()) {
    make_folders(flags.out);
    write_study(flags.out, {{"rows.csv", csv_of(layers)}, {"study.json", json}});
  }
  bool all = true;
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerRows& layer = layers[l];
    if (layer.fastest() != nullptr || (l > 0 && alike(layer, layers[l - 1]))) continue;
    all = false;
    fmt::print(stderr, "millrace: infeasible: layer \"{}\": one board does not hold it ({}), nor do {} in a row\n", layer.layer,
               layer.rows.front().why, layer.rows.size());
  }
  return all ? 0 : exit_status_of(ErrorCode::kInfeasible);
}

}  // namespace millrace
