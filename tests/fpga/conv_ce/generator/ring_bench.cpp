#include "tests/fpga/conv_ce/generator/ring_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>
#include <sstream>
#include <string_view>

#include "core/base/files.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/conv_ce/registers/register_map.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"

namespace millrace {

namespace {

const StreamVectors* found(const std::vector<StreamVectors>& streams, const std::string& name) {
  const auto at = std::ranges::find(streams, name, &StreamVectors::name);
  return at == streams.end() ? nullptr : &*at;
}

// More than any of these networks takes, the same for every plan.
StreamVectors random_stream(const std::string& name, int64_t lanes, int bits) {
  StreamVectors stream{name, std::vector<int16_t>(size_t{1} << 15), lanes};
  std::mt19937_64 random(static_cast<uint64_t>(bits));
  for (int16_t& element : stream.beats)
    element = static_cast<int16_t>(static_cast<int64_t>(random() % (uint64_t{1} << bits)) - (int64_t{1} << (bits - 1)));
  return stream;
}

// What `device` is sent by its neighbours' ports: name there, name here.
void give(std::vector<StreamVectors>& given, const DeviceVectors& neighbour, const std::string& port, const std::string& as) {
  if (const StreamVectors* stream = found(neighbour.outputs, port)) given.push_back({as, stream->beats, stream->lanes});
}

template <typename Element>
std::string hex_lines(std::span<const Element> elements, size_t per_line) {
  std::string text;
  for (size_t line = 0; line < elements.size(); line += per_line) {
    for (size_t i = per_line; i-- > 0;) {
      const Element element = line + i < elements.size() ? elements[line + i] : Element{};
      text += fmt::format("{:0{}x}", static_cast<std::make_unsigned_t<Element>>(element), sizeof(Element) * 2);
    }
    text += '\n';
  }
  return text;
}

// The port of the neighbour that an input of device `index` comes from; "" at the ring's ends. It comes from upstream unless it is errors.
std::string neighbours_port(const std::vector<DeviceDesign>& designs, size_t index, const std::string& input) {
  const bool forward = input.find("error") == std::string::npos;
  const auto from = [&] { return fmt::format("m{}", std::string_view(input).substr(1)); };
  if (forward) return index == 0 ? "" : from();
  if (index + 1 == designs.size()) return "";
  if (input.starts_with("s_passing")) return from();
  const bool raw = input == "s_error" && !designs[index].shards.back().owner;
  return raw ? "m_raw_error" : "m_input_error";
}
std::string source_of(const std::vector<DeviceDesign>& designs, size_t index, const std::string& input) {
  const std::string port = neighbours_port(designs, index, input);
  const bool forward = input.find("error") == std::string::npos;
  return port.empty() ? "" : fmt::format("device_{}_{}", forward ? index - 1 : index + 1, port);
}

std::vector<DeviceDesign> all_designs(const Plan& plan, const Graph& graph, const WeightSource& weights) {
  std::vector<DeviceDesign> designs;
  for (int64_t device = 0; device < plan.devices(); ++device) designs.push_back(device_design(plan, graph, device, weights));
  return designs;
}

constexpr std::string_view kHost = R"sv(
  initial clock = 1'b0;
  always #5 clock = !clock;
  int differences, cycles;

  initial begin
    {reset_n, enable, awvalid, arvalid} = '0;
    differences = 0;
    repeat (4) @(negedge clock);
    reset_n = 1'b1;
    for (int write = 0; write < WRITES; write++) begin
      @(negedge clock);
      place = write;
      awvalid = 1'b1;
      @(negedge clock);
      awvalid = 1'b0;
      repeat (3) @(negedge clock);
    end
    enable = 1'b1;
    done = '0;
    cycles = 0;
    while (done != '1 && cycles < 400000) begin
      @(negedge clock);
      arvalid = 1'b1;
      @(negedge clock);
      arvalid = 1'b0;
      done = done | control_done;
      repeat (48) @(negedge clock);
      cycles = cycles + 50;
    end
    if (done != '1) begin
      $display("FAIL: not done after %0d cycles: devices %b are", cycles, done);
      $finish;
    end
)sv";

}  // namespace

RingBench::RingBench(const Plan& plan, const Graph& graph, const WeightSource& weights) : RingBench(all_designs(plan, graph, weights), 2) {}

RingBench::RingBench(std::vector<DeviceDesign> designs, int64_t samples) : designs_(std::move(designs)), samples_(samples) {
  const int64_t lanes = designs_.front().lanes;
  vectors_.resize(designs_.size());
  const auto run = [&](size_t index, const std::vector<StreamVectors>& given) {
    const DeviceDesign& design = designs_[index];
    vectors_[index] = device_vectors(design, design.maps.front().height, samples_, /*seed=*/1, given);
  };
  std::vector<std::vector<StreamVectors>> given(designs_.size());
  given.front() = {random_stream("s_activation", lanes, 13)};
  given.back().push_back(random_stream("s_error", lanes, 11));
  const auto give_all = [&](size_t i, bool forward) {
    for (const std::string& input : input_streams(designs_[i])) {
      if ((input.find("error") == std::string::npos) != forward) continue;
      const std::string port = neighbours_port(designs_, i, input);
      if (!port.empty()) give(given[i], vectors_[forward ? i - 1 : i + 1], port, input);
    }
  };
  for (size_t i = 0; i < designs_.size(); ++i) {
    give_all(i, true);
    run(i, given[i]);
  }
  for (size_t i = designs_.size() - 1; i-- > 0;) {
    give_all(i, false);
    run(i, given[i]);
  }
}

const std::vector<int16_t>& RingBench::last_output() const { return found(vectors_.back().outputs, "m_activation")->beats; }

std::vector<int32_t> RingBench::gradient_of(size_t device, size_t shard) const {
  const ShardDesign& design = designs_[device].shards[shard];
  return gradients_of_words(design.engine, design.shape, vectors_[device].gradients[shard].words);
}

const std::vector<int32_t>& RingBench::bias_gradient_of(size_t device, size_t shard) const {
  return vectors_[device].gradients[shard].bias;
}

void RingBench::write(const std::filesystem::path& folder, bool pauses) const {
  const int64_t width = designs_.front().lanes * 16;
  const size_t devices = designs_.size();
  const auto writes = static_cast<int64_t>(xrt::writes_of({}).size());
  std::string wires, parts, checks;
  for (size_t i = 0; i < devices; ++i) {
    const DeviceDesign& design = designs_[i];
    const std::string d = fmt::format("device_{}", i);
    write_device(design, folder / std::to_string(i), {.test_samples = samples_});
    const OutsideGradients outside = outside_gradients(design, vectors_[i]);
    write_atomically(folder / (d + "_gradients.hex"), std::string_view(hex_lines<int32_t>(outside.values, 2)));
    write_atomically(folder / (d + "_gradients.hex.mask"), std::string_view(hex_lines<int32_t>(outside.mask, 2)));
    std::string connections;
    for (const auto& ports : {input_streams(design), output_streams(design)})
      for (const std::string& port : ports) {
        wires += fmt::format("  logic {0}_{1}_tvalid, {0}_{1}_tready;\n  logic [{2}:0] {0}_{1}_tdata;\n", d, port, width - 1);
        for (const char* part : {"tvalid", "tready", "tdata"}) connections += fmt::format("      .{0}_{1}({2}_{0}_{1}),\n", port, part, d);
      }
    for (const std::string& port : input_streams(design)) {
      const std::string source = source_of(designs_, i, port);
      if (!source.empty()) {
        parts += fmt::format(
            "  assign {0}_{1}_tvalid = {2}_tvalid;\n  assign {0}_{1}_tdata = {2}_tdata;\n  assign {2}_tready = {0}_{1}_tready;\n", d, port,
            source);
        continue;
      }
      const StreamVectors* stream = found(vectors_[i].inputs, port);
      write_atomically(folder / (port + ".hex"), std::string_view(hex_lines<int16_t>(stream->beats, static_cast<size_t>(stream->lanes))));
      parts += fmt::format(
          "  stream_player #(.FILE(\"{1}.hex\"), .COUNT({2}), .WIDTH({3}), .SEED(5)) {0}_{1}_player (.clock, .enable, "
          ".tvalid({0}_{1}_tvalid), .tready({0}_{1}_tready), .tdata({0}_{1}_tdata));\n",
          d, port, stream->count(), width);
    }
    for (MemoryOutside outside_port : memories_outside(design)) {
      outside_port.pauses = pauses;
      const PortMemory text = port_memory(design, outside_port, d + "_");
      wires += text.module;
      connections += text.connections;
    }
    const MemoryPlaces places = memory_places(design);
    std::string memory;
    for (const char* wire : {"arvalid", "arready", "rvalid", "rready", "rlast", "awvalid", "awready", "wvalid", "wready", "wlast", "bvalid",
                             "bready",  "araddr",  "arlen",  "rdata",  "rresp", "awaddr",  "awlen",   "wdata",  "wstrb",  "bresp"}) {
      const std::string name = wire;
      const int bits = name.ends_with("addr") || name.ends_with("data") ? 64
                       : name.ends_with("len") || name == "wstrb"       ? 8
                       : name.ends_with("resp")                         ? 2
                                                                        : 1;
      wires += fmt::format("  logic [{}:0] {}_{};\n", bits - 1, d, name);
      connections += fmt::format("      .m_axi_gmem_{1}({0}_{1}),\n", d, name);
      memory += fmt::format(", .{1}({0}_{1})", d, name);
    }
    wires += fmt::format("  logic [31:0] {}_rdata_control;\n  logic [63:0] {}_start[0:{}];\n", d, d, writes - 1);
    parts +=
        fmt::format("  outside_memory #(.FILE(\"{1}/vectors/memory.hex\"), .WORDS({2}), .SEED({3})) {0}_memory (.clock, .reset_n{4});\n", d,
                    i, places.words, 90 + i, memory);
    parts += fmt::format(
        "  initial $readmemh(\"{1}/vectors/start.hex\", {0}_start);\n"
        "  assign control_done[{1}] = {0}_rdata_control[1];\n"
        "  {2} {0} (\n      .ap_clk(clock),\n      .ap_rst_n(reset_n),\n{3}"
        "      .s_axi_control_awvalid(awvalid),\n      .s_axi_control_awaddr({4}'({0}_start[place][63:32])),\n"
        "      .s_axi_control_wvalid(awvalid),\n      .s_axi_control_wdata({0}_start[place][31:0]),\n      .s_axi_control_wstrb(4'hf),\n"
        "      .s_axi_control_bready(1'b1),\n      .s_axi_control_arvalid(arvalid),\n      .s_axi_control_araddr('0),\n"
        "      .s_axi_control_rready(1'b1),\n      .s_axi_control_rdata({0}_rdata_control)\n  );\n",
        d, i, design.module_name(), connections, xrt::kMapAddressBits);
    const auto words = static_cast<int64_t>((outside.values.size() + 1) / 2);
    wires += fmt::format("  logic [63:0] {0}_expected[0:{1}], {0}_mask[0:{1}];\n", d, words - 1);
    checks += fmt::format(
        "    $readmemh(\"{0}_gradients.hex\", {0}_expected);\n    $readmemh(\"{0}_gradients.hex.mask\", {0}_mask);\n"
        "    for (int word = 0; word < {1}; word++)\n"
        "      if ((({0}_memory.words[{2}+word] ^ {0}_expected[word]) & {0}_mask[word]) != '0) begin\n"
        "        if (differences < 10) $display(\"{0}: word %0d of the gradients is %h, expected %h\", word,\n"
        "                                       {0}_memory.words[{2}+word], {0}_expected[word]);\n"
        "        differences = differences + 1;\n      end\n",
        d, words, (places.result + static_cast<int64_t>(sizeof(xrt::ResultHeader))) / 8);
  }
  const StreamVectors& out = *found(vectors_.back().outputs, "m_activation");
  const ShardDesign& tail = designs_.back().shards.back();
  const BeatOrder order{tail.layer_outputs, tail.window.out_height, tail.window.out_width, designs_.back().lanes};
  const std::vector<int16_t> one =
      beats_of_map(order, std::vector<int16_t>(static_cast<size_t>(order.channels * order.height * order.width), -1));
  std::vector<int16_t> mask;
  for (int64_t sample = 0; sample < samples_; ++sample) mask.insert(mask.end(), one.begin(), one.end());
  write_atomically(folder / "out.hex", std::string_view(hex_lines<int16_t>(out.beats, static_cast<size_t>(out.lanes))));
  write_atomically(folder / "out.hex.mask", std::string_view(hex_lines<int16_t>(mask, static_cast<size_t>(out.lanes))));
  parts += fmt::format(
      "  int received, out_differences;\n  stream_checker #(.FILE(\"out.hex\"), .NAME(\"the last output\"), .COUNT({1}), .WIDTH({2}), "
      ".SEED(6)) "
      "out_checker (.clock, .tvalid(device_{0}_m_activation_tvalid), .tready(device_{0}_m_activation_tready), "
      ".tdata(device_{0}_m_activation_tdata), .received, .differences(out_differences));\n",
      devices - 1, out.count(), width);
  parts += fmt::format(
      "  int scored;\n  always @(posedge clock) if (received / {} > scored) begin\n"
      "    $display(\"scores at %0d\", $time / 10);\n    scored <= scored + 1;\n  end\n  initial scored = 0;\n",
      out.count() / samples_);
  // The helpers are those of the devices' own testbenches.
  std::string text = read_text(folder / "0" / "testbench.sv");
  text.erase(text.find("module testbench;"));
  const std::string pause = "random[1:0] != 2'd0";
  for (size_t at = pauses ? std::string::npos : text.find(pause); at != std::string::npos; at = text.find(pause))
    text.replace(at, pause.size(), "1'b1");
  text += fmt::format(
      "module ring;\n  localparam int WRITES = {};\n  logic clock, reset_n, enable, awvalid, arvalid;\n  int place;\n"
      "  logic [{}:0] done, control_done;\n{}{}{}{}",
      writes, devices - 1, wires, parts, kHost, checks);
  text += fmt::format(
      "    if (received != {}) differences = differences + 1;\n    differences = differences + out_differences;\n"
      "    if (differences == 0) $display(\"PASS\");\n    else $display(\"FAIL: %0d differences\", differences);\n    $finish;\n  end\n"
      "endmodule\n",
      out.count());
  write_atomically(folder / "ring.sv", std::string_view(text));
}

std::string RingBench::run(const std::filesystem::path& folder, bool verilated) const {
  std::string tops;
  for (size_t i = 1; i < designs_.size(); ++i) tops += fmt::format(" {}/rtl/{}.sv", i, designs_[i].module_name());
  const std::string build =
      verilated ? "verilator --binary --timing -j 1 -O3 -Wno-fatal --top-module ring -o ring" : "iverilog -g2012 -o ring.vvp -s ring";
  const bool ran = std::system(fmt::format("cd '{}' && {} 0/rtl/*.sv{} ring.sv > build.log 2>&1 && {} > run.log 2>&1", folder.string(),
                                           build, tops, verilated ? "./obj_dir/ring" : "vvp ring.vvp")
                                   .c_str()) == 0;
  if (!ran) return read_text(folder / "build.log");
  const std::string log = read_text(folder / "run.log");
  return log.find("\nPASS\n") != std::string::npos || log.starts_with("PASS\n") ? "PASS" : log;
}

std::vector<int64_t> RingBench::score_cycles(const std::filesystem::path& folder) {
  std::vector<int64_t> cycles;
  std::istringstream log(read_text(folder / "run.log"));
  const std::string_view begin = "scores at ";
  for (std::string line; std::getline(log, line);)
    if (line.starts_with(begin)) cycles.push_back(std::stoll(line.substr(begin.size())));
  return cycles;
}

}  // namespace millrace
