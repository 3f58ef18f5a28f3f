#include "deploy/command/rtl/rtl_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "deploy/session/ring_check.h"

namespace millrace {

namespace {

using Row = CheckedDevice;

nlohmann::ordered_json json_of(const RingCheck& ring) {
  using json = nlohmann::ordered_json;
  const auto multipliers = [](const PhaseMultipliers& counts) {
    return json{{"fp", counts.forward}, {"eb", counts.error_back}, {"pg", counts.gradient}};
  };
  const auto amounts = [](const BoardAmounts& has) {
    return json{{"dsp", has.dsp}, {"bram36", has.bram36}, {"uram", has.urams}, {"lut", has.luts}};
  };
  json devices = json::array();
  for (const Row& row : ring.devices) {
    const DeviceCheck& check = row.check;
    json device = {{"index", check.index},
                   {"device", check.board},
                   {"generated", nullptr},
                   {"reason", check.reason},
                   {"planned_multipliers", multipliers(check.planned)},
                   {"built_multipliers", multipliers(check.built)},
                   {"planned_seconds", check.planned_seconds},
                   {"built_seconds", check.built_seconds},
                   {"slowest", check.slowest}};
    device.update(amounts(check.built_amounts));
    device.update(
        json{{"fits", nullptr},
             {"lacks", check.lacks},
             {"planned", amounts(check.planned_amounts)},
             {"capacity", amounts(check.capacity)},
             {"weights_off_chip",
              {{"layers", check.off_chip.layers},
               {"planned_bytes", check.off_chip.off_chip_bytes},
               {"generated_bram36", check.off_chip.bram36},
               {"streamed", check.off_chip.streamed},
               {"streamed_bytes_per_sample", check.off_chip.streamed_bytes_per_sample}}},
             {"waits_off_chip",
              {{"memories", check.waits.memories}, {"bytes_per_sample", check.waits.bytes_per_sample}, {"bytes", check.waits.bytes}}}});
    // Of a device that nothing is generated for, neither is asked.
    if (row.counts) {
      device["generated"] = check.generated;
      device["fits"] = check.fits();
    }
    devices.push_back(std::move(device));
  }
  json all = {{"devices", devices},
              {"pace_ratio", nullptr},
              {"waiting_pace_ratio", nullptr},
              {"no_waiting_pace_ratio", ring.no_waiting},
              {"waits", nullptr},
              {"origin", "planned: the plan's cost model; built: modelled as generated; lut: projected"}};
  if (ring.pace_ratio) all["pace_ratio"] = *ring.pace_ratio;
  if (ring.waiting_pace_ratio) all["waiting_pace_ratio"] = *ring.waiting_pace_ratio;
  if (ring.waits)
    all["waits"] = {{"device", ring.waits->device},
                    {"layer", ring.waits->layer},
                    {"memory", ring.waits->memory},
                    {"room_samples", ring.waits->room_samples},
                    {"enough_samples", ring.waits->enough_samples}};
  return all;
}

std::string counts_text(const PhaseMultipliers& counts) {
  return fmt::format("{} {} {}", counts.forward, counts.error_back, counts.gradient);
}

// Planned, built, there.
std::string amounts_text(double planned, double built, double capacity) {
  return fmt::format("{:.0f} {:.0f} {:.0f}", planned, built, capacity);
}

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:>6} {:<7} {:>18} {:>18} {:>10} {:>10}  {:<28} {:>16} {:>16} {:>12} {:>22}\n", "device", "board", "planned FP EB PG",
             "built FP EB PG", "planned ms", "built ms", "slowest", "DSP", "BRAM36", "URAM", "LUT");
  for (const Row& row : rows) {
    const DeviceCheck& check = row.check;
    if (!check.generated) {
      fmt::print("{:>6} {:<7} {:>18} {:>18} {}: {}\n", check.index, check.board, row.counts ? counts_text(check.planned) : "-", "-",
                 row.counts ? "not generated" : "nothing to generate", check.reason);
      continue;
    }
    const BoardAmounts &planned = check.planned_amounts, &built = check.built_amounts, &there = check.capacity;
    fmt::print("{:>6} {:<7} {:>18} {:>18} {:>10.3f} {:>10.3f}  {:<28} {:>16} {:>16} {:>12} {:>22}{}\n", check.index, check.board,
               counts_text(check.planned), counts_text(check.built), 1e3 * check.planned_seconds, 1e3 * check.built_seconds, check.slowest,
               amounts_text(planned.dsp, built.dsp, there.dsp), amounts_text(planned.bram36, built.bram36, there.bram36),
               amounts_text(planned.urams, built.urams, there.urams), amounts_text(planned.luts, built.luts, there.luts),
               check.lacks.empty() ? "" : "  too large");
  }
  fmt::print("multipliers by phase; DSP, BRAM36, URAM and LUT: planned, built, of the board (modelled; LUT projected)\n");
  for (const Row& row : rows)
    if (!row.check.off_chip.streamed.empty())
      fmt::print("device {}: weights and gradients of {} lie off the chip: {:.1f} MB a sample, streamed\n", row.check.index,
                 row.check.off_chip.streamed, row.check.off_chip.streamed_bytes_per_sample / 1e6);
  for (const Row& row : rows)
    if (!row.check.waits.memories.empty())
      fmt::print("device {}: {} wait{} off the chip for errors: {:.1f} MB a sample there and back, {:.1f} MB in all\n", row.check.index,
                 memories_text(row.check.waits), row.check.waits.memories.size() == 1 ? "s" : "", row.check.waits.bytes_per_sample / 1e6,
                 static_cast<double>(row.check.waits.bytes) / 1e6);
  for (const Row& row : rows)
    if (!row.check.off_chip.layers.empty())
      fmt::print("device {}: the plan keeps {:.1f} MB of weights and gradients off the chip ({}); built, they are on it: {:.0f} BRAM36\n",
                 row.check.index, static_cast<double>(row.check.off_chip.off_chip_bytes) / 1e6, row.check.off_chip.layers,
                 row.check.off_chip.bram36);
}

void print_pace(const RingCheck& ring) {
  if (ring.boards() == 0) {
    fmt::print("no board of the plan computes: nothing to generate\n");
    return;
  }
  fmt::print("{} of {} boards generated, {} of them within their resources; ", ring.generated(), ring.boards(), ring.fitting());
  if (ring.pace_ratio)
    fmt::print("pace_ratio {:.3f}: the built engines' pace over the planned one\n", *ring.pace_ratio);
  else
    fmt::print("no pace_ratio while one is missing\n");
  if (const std::string waiting = waiting_text(ring); !waiting.empty()) fmt::print("{}\n", waiting);
}

}  // namespace

int tell_check(const Plan& plan, const Graph& graph, bool json) {
  const RingCheck ring = check_ring(plan, graph);
  if (json) {
    fmt::print("{}\n", json_of(ring).dump(2));
  } else {
    print_table(ring.devices);
    print_pace(ring);
  }
  return ring.generated() == ring.boards() ? 0 : exit_status_of(ErrorCode::kInfeasible);
}

}  // namespace millrace
