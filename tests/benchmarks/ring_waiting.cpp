// Small rings with rooms drawn at random, their RTL beside the timing of their rows: cycles from score to score.
//
//   build/release/bin/ring_waiting --rings 200 --seed 1 --folder build/rings --out tests/benchmarks/results/ring_waiting.json
//
// Networks are those of the generator's tests, each generated twice: with all that waits on the chip, and with a part of it in the memory
// outside. A simulation is built once for each, with room for kMostSamples samples, and run with fewer: the FIFOs of its copy of the RTL
// read from rooms.txt how many words they take. Needs verilator.
#include "fpga/conv_ce/generator/ring_waiting.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/files.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/generator/ring_streams.h"
#include "tests/fpga/conv_ce/generator/ring_bench.h"
#include "tests/fpga/conv_ce/generator/whole_image_rings.h"

namespace millrace {
namespace {

constexpr int64_t kMostSamples = 6;

struct Network {
  std::string name;
  Model model;
  int64_t period = 0;
  std::vector<Cut> cuts;
};

std::vector<Network> networks() {
  return {{"four-layers", four_layers(8, 8), 500, {{1, 5, 3}, {2, 4, 0}}},
          {"residual-blocks", residual_blocks(), 1500, {{2, 2, 1}, {3, 0, 0}}},
          {"inception-block", inception_block(), 2100, {{4, 0, 0}, {7, 0, 0}}},
          {"averages", average_model(), 700, {{2, 0, 0}}},
          {"strides", strided_model(), 600, {{1, 3, 0}}},
          {"response-norms", response_model(), 900, {{2, 0, 0}}},
          {"running-norms", running_model(), 900, {{2, 0, 0}, {4, 0, 0}}},
          {"smooth-activations", smooth_model(), 700, {{2, 0, 0}}},
          {"shortcut", shortcut_model(), 900, {{2, 0, 0}}},
          {"dense", dense_model(), 300, {{1, 0, 0}}}};
}

// A memory that waits, its FIFOs in the top level, and its words of a sample.
struct Memory {
  RoomPlace place;
  std::vector<std::string> fifos;
  int64_t sample_words = 0;
};

std::vector<Memory> memories_of(const DeviceDesign& design) {
  std::vector<Memory> found;
  for (const OutsideFifo& fifo : movable_fifos(design)) {
    const auto known = std::ranges::find(found, fifo.of, &Memory::place);
    Memory& memory = known == found.end() ? found.emplace_back(Memory{fifo.of, {}, fifo.rows * fifo.row_words}) : *known;
    memory.fifos.push_back(fifo.name);
  }
  for (size_t i = 0; i < design.units(); ++i) {
    const ShardDesign& unit = design.unit(i);
    if (unit.is_tail || unit.owner)
      if (unit.masks_errors()) {
        const RoomPlace norm{RoomPlace::Kind::kNorm, i};
        const std::string name = fmt::format("shard_{}_mask_ram", i);
        const auto known = std::ranges::find(found, norm, &Memory::place);  // which has the same room
        if (known != found.end())
          known->fifos.push_back(name);
        else
          found.push_back({{RoomPlace::Kind::kMasks, i}, {name}, unit.mask_beats});
      }
  }
  return found;
}

std::vector<DeviceDesign> designs_of(const Network& network, bool outside, std::mt19937_64& random) {
  const Graph graph(network.model);
  const Plan plan = ring_in_time(graph, network.period, 3600, network.cuts);
  std::vector<DeviceDesign> designs;
  for (int64_t device = 0; device < plan.devices(); ++device) {
    DeviceDesign& design = designs.emplace_back(device_design(plan, graph, device, normalising_weights));
    for (const Memory& memory : memories_of(design)) room_at(design, memory.place) *= kMostSamples;
    if (outside)
      for (const OutsideFifo& fifo : movable_fifos(design))
        if (random() % 2 == 0) give_outside_room(design, fifo.of, kMostSamples);
  }
  return designs;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("no \"" + from + "\"");
  text.replace(at, from.size(), to);
}

// FIFOs that read how many words they take.
void read_rooms(const std::filesystem::path& folder) {
  const std::string reads = R"sv(  int own_room = ROOM_GIVEN;
  initial begin : take_room
    int file, room, found;
    string name, mine;
    mine = $sformatf("%m");
    file = $fopen("rooms.txt", "r");
    if (file != 0) begin
      found = $fscanf(file, "%s %d\n", name, room);
      while (found == 2) begin
        if (mine == {"TOP.", name, ".take_room"}) own_room = room;
        found = $fscanf(file, "%s %d\n", name, room);
      end
      $fclose(file);
    end
  end
)sv";
  const auto with = [&](std::string given) {
    std::string text = reads;
    replace(text, "ROOM_GIVEN", given);
    return text;
  };
  const auto fifo = folder / "0/rtl/deep_fifo.sv", outside = folder / "0/rtl/outside_fifo.sv";
  std::string text = read_text(fifo);
  replace(text, "  assign in_tready = count < (ADDRESS_BITS + 1)'(DEPTH);\n",
          with("DEPTH") + "  assign in_tready = 32'(count) < own_room;\n");
  write_atomically(fifo, std::string_view(text));
  if (!std::filesystem::exists(outside)) return;
  text = read_text(outside);
  replace(text, "  assign has_room = held < room;\n", with("0") + "  assign has_room = held < (own_room > 0 ? own_room : room);\n");
  write_atomically(outside, std::string_view(text));
}

struct Options {
  int64_t rings = 20, samples = 24;
  uint64_t seed = 1;
  std::string folder = "rings", out, only;
  double agree = 0.01;
};

void run(const Options& options) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const std::vector<Network> all = networks();
  int64_t agree = 0, drawn = 0;
  double worst = 0;
  for (const Network& network : all) {
    if (!options.only.empty() && network.name.find(options.only) == std::string::npos) continue;
    for (const bool outside : {false, true}) {
      std::mt19937_64 random(options.seed);
      std::vector<DeviceDesign> most = designs_of(network, outside, random);
      const std::filesystem::path folder =
          std::filesystem::path(options.folder) / fmt::format("{}_{}_{}", network.name, outside, options.samples);
      const RingBench bench(most, options.samples);
      if (!std::filesystem::exists(folder / "obj_dir/ring")) {
        std::filesystem::create_directories(folder);
        bench.write(folder, /*pauses=*/false);
        read_rooms(folder);
        std::string seen = bench.run(folder, /*verilated=*/true);
        if (seen != "PASS") throw std::runtime_error(folder.string() + ": " + seen);
      }
      for (int64_t ring = 0; ring < options.rings; ++ring) {
        std::vector<DeviceDesign> designs = most;
        std::string rooms;
        nlohmann::ordered_json given;
        // One in four: alike but for one.
        const bool alike = random() % 4 == 0;
        const auto common = static_cast<int64_t>(random() % kMostSamples) + 1;
        for (DeviceDesign& design : designs)
          for (const Memory& memory : memories_of(design)) {
            int64_t samples =
                alike && random() % 8 != 0 ? common : 1 + static_cast<int64_t>(std::min(random() % kMostSamples, random() % kMostSamples));
            bool is_outside = false;
            for (const OutsideFifo& fifo : outside_fifos(design))
              if (fifo.of == memory.place) is_outside = true;
            if (is_outside) samples = std::max<int64_t>(samples, 2);
            if (is_outside) give_outside_room(design, memory.place, samples);
            const int64_t words = room_at(design, memory.place) * samples / kMostSamples;
            room_at(design, memory.place) = words;
            for (const std::string& fifo : memory.fifos) {
              int64_t room = words;
              for (const OutsideFifo& one : outside_fifos(design))
                if (one.name == fifo) room = one.sample_beats() * samples;
              rooms += fmt::format("ring.device_{}.{} {}\n", design.index, fifo, room);
              given[fmt::format("{}.{}{}", design.index, fifo, is_outside ? "*" : "")] = samples;
            }
          }
        write_atomically(folder / "rooms.txt", std::string_view(rooms));
        if (std::system(fmt::format("cd '{}' && ./obj_dir/ring > run.log 2>&1", folder.string()).c_str()) != 0)
          throw std::runtime_error(folder.string() + ": no run");
        const std::vector<int64_t> scores = RingBench::score_cycles(folder);
        if (std::ssize(scores) != options.samples) throw std::runtime_error(folder.string() + ": " + read_text(folder / "run.log"));
        const size_t half = scores.size() / 2;
        const double simulated = static_cast<double>(scores.back() - scores[scores.size() - 1 - half]) / static_cast<double>(half);
        std::vector<PlacedDesign> placed;
        for (const DeviceDesign& design : designs) placed.push_back({&design, 1});
        const double timed = ring_waiting(placed).seconds;
        const double ratio = timed / simulated;
        ++drawn;
        agree += std::abs(ratio - 1) <= options.agree ? 1 : 0;
        worst = std::max(worst, std::abs(ratio - 1));
        rows.push_back({{"network", network.name}, {"outside", outside}, {"rooms", given}, {"simulated", simulated}, {"modelled", timed}});
        fmt::print("{} {} {}: {:.1f} simulated, {:.1f} timed, {:.4f}{}\n", network.name, outside ? "outside" : "on chip", ring, simulated,
                   timed, ratio, std::abs(ratio - 1) <= options.agree ? "" : " <---- " + given.dump());
        std::fflush(stdout);
      }
      if (options.out.empty()) continue;
      const nlohmann::ordered_json result = {
          {"what", "cycles from score to score of small rings whose memories have rooms drawn at random"},
          {"command",
           fmt::format("build/release/bin/ring_waiting --rings {} --samples {} --seed {}", options.rings, options.samples, options.seed)},
          {"origin", "simulated: RTL under Verilator; modelled: fpga/conv_ce/generator/ring_waiting.h"},
          {"drawn", drawn},
          {"within", options.agree},
          {"agree", agree},
          {"worst", worst},
          {"rings", rows}};
      write_atomically(options.out, std::string_view(result.dump() + "\n"));
    }
  }
  fmt::print("{} of {} agree within {}, worst {:.4f}\n", agree, drawn, options.agree, worst);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  CLI::App app{"Rings with rooms drawn at random: RTL beside the timing of their rows"};
  app.add_option("--rings", options.rings);
  app.add_option("--samples", options.samples);
  app.add_option("--seed", options.seed);
  app.add_option("--folder", options.folder);
  app.add_option("--only", options.only);
  app.add_option("--out", options.out);
  CLI11_PARSE(app, argc, argv);
  millrace::run(options);
  return 0;
}
