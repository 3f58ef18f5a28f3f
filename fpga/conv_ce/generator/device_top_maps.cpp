#include "fpga/conv_ce/generator/device_top_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

namespace {

std::string wires(const std::string& name) { return fmt::format("  logic {0}_valid, {0}_ready;\n  logic [BEAT-1:0] {0}_data;\n", name); }
std::string wide_wires(const std::string& name, int64_t bits) {
  return fmt::format("  logic {0}_valid, {0}_ready;\n  logic [{1}:0] {0}_data;\n", name, bits - 1);
}

// Channel groups of a range, counted from where `from` begins.
struct Groups {
  int64_t begin = 0, end = 0;
};
Groups groups_of(const ChannelRange& range, const ChannelRange& from, int64_t lanes) {
  return {range.begin / lanes - from.begin / lanes, divided_up(range.end, lanes) - from.begin / lanes};
}
int64_t all_groups(const ChannelRange& range, int64_t lanes) { return groups_of(range, range, lanes).end; }

// From `from` to several, each of which takes its channel groups. `name` of the fork.
std::string fork(const std::string& name, const std::string& from, const std::vector<std::string>& to, const std::vector<Groups>& ranges,
                 int64_t groups, int64_t width) {
  std::string valid, ready, begins, ends;
  for (size_t i = to.size(); i-- > 0;) {
    const char* comma = i == 0 ? "" : ", ";
    valid += fmt::format("{}_valid{}", to[i], comma);
    ready += fmt::format("{}_ready{}", to[i], comma);
    begins += fmt::format("16'd{}{}", ranges[i].begin, comma);
    ends += fmt::format("16'd{}{}", ranges[i].end, comma);
  }
  std::string text = fmt::format(
      "  map_fork #(\n      .READERS({}),\n      .BEGINS({{{}}}),\n      .ENDS({{{}}})\n  ) {} (\n      .clock(ap_clk),\n      .clear,\n"
      "      .width(16'd{}),\n      .groups(16'd{}),\n      .in_tvalid({}_valid),\n      .in_tready({}_ready),\n"
      "      .out_tvalid({{{}}}),\n      .out_tready({{{}}})\n  );\n",
      to.size(), begins, ends, name, width, groups, from, from, valid, ready);
  for (const std::string& reader : to) text += fmt::format("  assign {}_data = {}_data;\n", reader, from);
  return text;
}

// Bits of an element of the sum so far, and of what leaves.
struct AdderBits {
  int64_t a = kElementBits, out = kElementBits;
};

std::string added(const std::string& name, const std::string& to, const std::string& a, const Groups& of_a, const std::string& b,
                  const Groups& of_b, int64_t groups, int64_t width, int64_t lanes, const AdderBits& bits = {}) {
  const bool wide = bits.a != kElementBits || bits.out != kElementBits;
  std::string text = fmt::format(
      "  map_adder #(\n      .LANES({}),\n      .A_BEGIN({}),\n      .A_END({}),\n      .B_BEGIN({}),\n      .B_END({}){}\n  ) {} (\n"
      "      .clock(ap_clk),\n      .clear,\n      .width(16'd{}),\n      .groups(16'd{}),\n",
      lanes, of_a.begin, of_a.end, of_b.begin, of_b.end,
      wide ? fmt::format(",\n      .A_BITS({}),\n      .OUT_BITS({})", bits.a, bits.out) : "", name, width, groups);
  for (const auto& [port, stream] : {std::pair("a", &a), std::pair("b", &b), std::pair("out", &to)})
    for (const char* part : {"valid", "ready", "data"})
      text += fmt::format("      .{}_t{}({}_{}){}\n", port, part, *stream, part, stream == &to && part == std::string("data") ? "" : ",");
  return text + "  );\n";
}

std::string waiting(const std::string& name, const std::string& from, const std::string& to, int64_t beats, int64_t ultra_bits) {
  return fmt::format(
      "  deep_fifo #(\n      .WIDTH(BEAT),\n{4}      .DEPTH({0})\n  ) {1} (\n      .clock(ap_clk),\n      .clear,\n      "
      ".in_tvalid({2}_valid),\n"
      "      .in_tready({2}_ready),\n      .in_tdata({2}_data),\n      .out_tvalid({3}_valid),\n      .out_tready({3}_ready),\n"
      "      .out_tdata({3}_data)\n  );\n",
      beats, name, from, to, ultra_bits > 0 ? fmt::format("      .ULTRA_BITS({}),\n", ultra_bits) : "");
}

std::string aligned(const std::string& name, const std::string& from, const std::string& to, int64_t channels, int64_t in_offset,
                    int64_t out_offset, int64_t width, int64_t lanes) {
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(width - 1))));
  return fmt::format(
      "  channel_aligner #(\n      .LANES({}),\n      .CHANNELS({}),\n      .IN_OFFSET({}),\n      .OUT_OFFSET({}),\n      "
      ".COLUMN_BITS({})\n"
      "  ) {} (\n      .clock(ap_clk),\n      .clear,\n      .width(16'd{}),\n      .in_tvalid({}_valid),\n      .in_tready({}_ready),\n"
      "      .in_tdata({}_data),\n      .out_tvalid({}_valid),\n      .out_tready({}_ready),\n      .out_tdata({}_data)\n  );\n",
      lanes, channels, in_offset, out_offset, bits, name, width, from, from, from, to, to, to);
}

size_t index_of(const DeviceDesign& design, const MapDesign& map) { return to_size(&map - design.maps.data()); }

// A port's stream under its reader's name, without the t of AXI.
std::string from_port(const std::string& to, const std::string& port) {
  return fmt::format("  assign {0}_valid = {1}_valid;\n  assign {1}_ready = {0}_ready;\n  assign {0}_data = {1}_tdata;\n", to, port);
}
std::string to_port(const std::string& port, const std::string& from) {
  return fmt::format("  assign {0}_tvalid = {1}_valid;\n  assign {1}_ready = {0}_tready;\n  assign {0}_tdata = {1}_data;\n", port, from);
}

std::string forward_text(const DeviceDesign& design, const MapDesign& map) {
  const size_t index = index_of(design, map);
  const int64_t groups = all_groups(map.channels, design.lanes);
  std::string text;
  if (map.arrives) text += from_port(map_name(index), map.stream);
  std::vector<std::string> to;
  std::vector<Groups> ranges;
  std::string behind;
  for (size_t r = 0; r < map.readers.size(); ++r) {
    const MapReader& reader = map.readers[r];
    const std::string name = reader_name(index, r);
    std::string arrives = name;
    if (reader.waiting_beats > 0) {
      arrives = name + "_first";
      text += wires(arrives);
      behind += waiting(name + "_waiting", arrives, name, reader.waiting_beats, reader.ultra_waiting);
    }
    to.push_back(arrives);
    ranges.push_back(groups_of(reader.channels, map.channels, design.lanes));
    if (reader.next) behind += to_port(reader.stream, name);
  }
  const bool whole = to.size() == 1 && ranges[0].begin == 0 && ranges[0].end == groups;
  text += whole ? connected(to[0], map_name(index)) : fork(map_name(index) + "_fork", map_name(index), to, ranges, groups, map.width);
  return text + behind;
}

// From the last reader's on.
std::string backward_text(const DeviceDesign& design, const MapDesign& map) {
  const size_t index = index_of(design, map);
  const int64_t groups = all_groups(map.channels, design.lanes);
  const std::string error = map_name(index) + "_error";
  std::string text, sum;
  Groups summed;
  for (size_t r = map.readers.size(); r-- > 0;) {
    const MapReader& reader = map.readers[r];
    std::string own = reader_error_name(index, r);
    if (reader.next) text += from_port(own, reader.error_stream);
    if (reader.error_beats > 0) {
      const std::string kept = own + "_kept";
      text += wires(kept) + waiting(own + "_waiting", own, kept, reader.error_beats, reader.ultra_errors);
      own = kept;
    }
    const Groups range = groups_of(reader.channels, map.channels, design.lanes);
    const bool last = r == 0;
    if (sum.empty()) {
      sum = own;
      summed = range;
      if (!last) continue;
      MILLRACE_CHECK(range.begin == 0 && range.end == groups, "{}: its one reader takes a part of it", map.layer);
      text += connected(error, own);
      continue;
    }
    // What is added so far has zeros wherever nobody read; the first two have ranges of their own.
    const std::string to = last ? error : fmt::format("{}_sum_{}", error, r);
    if (!last) text += wires(to);
    text += added(fmt::format("{}_adder_{}", error, r), to, own, range, sum, summed, groups, map.width, design.lanes);
    sum = to;
    summed = {0, groups};
  }
  if (map.arrives) text += to_port(map.error_stream, error);
  return text;
}

}  // namespace

std::string map_name(size_t map) { return fmt::format("map_{}", map); }
std::string reader_name(size_t map, size_t reader) { return fmt::format("map_{}_to_{}", map, reader); }
std::string reader_error_name(size_t map, size_t reader) { return fmt::format("map_{}_from_{}", map, reader); }

std::string connected(const std::string& to, const std::string& from) {
  return fmt::format("  assign {0}_valid = {1}_valid;\n  assign {1}_ready = {0}_ready;\n  assign {0}_data = {1}_data;\n", to, from);
}

StationStreams streams_of(const DeviceDesign& design, const Station& station, size_t operand) {
  StationStreams streams;
  const MapDesign& map = design.input_of(station, operand);
  for (size_t r = 0; r < map.readers.size(); ++r) {
    const MapReader& reader = map.readers[r];
    if (reader.next || !(reader.station == station) || reader.operand != operand) continue;
    streams.in = reader_name(index_of(design, map), r);
    streams.in_error = reader_error_name(index_of(design, map), r);
  }
  if (const MapDesign* made = design.output_of(station)) {
    streams.out = map_name(index_of(design, *made));
    streams.out_error = streams.out + "_error";
  }
  return streams;
}

std::string height_of(const DeviceDesign& design, const MapDesign& map) {
  const int64_t first = design.maps.front().height;
  if (map.arrives) return map.height == first ? "INPUT_ROWS" : fmt::format("(INPUT_ROWS * {} / {})", map.height, first);
  if (map.maker.kind == StationKind::kJoin) return height_of(design, design.input_of(map.maker));
  return fmt::format("SHARD_{}_POOLED_HEIGHT", design.unit_of(map.maker));
}

std::string map_wires(const DeviceDesign& design) {
  std::string text = "\n  // Maps: of each the stream, and those of its readers; errors the other way.\n";
  for (const MapDesign& map : design.maps) {
    const size_t index = index_of(design, map);
    text += fmt::format("  // {}: the output of {}\n", map_name(index), map.layer) + wires(map_name(index));
    for (size_t r = 0; r < map.readers.size(); ++r) text += wires(reader_name(index, r));
    if (!map.error_back) continue;
    text += wires(map_name(index) + "_error");
    for (size_t r = 0; r < map.readers.size(); ++r) text += wires(reader_error_name(index, r));
  }
  return text;
}

std::string join_text(const DeviceDesign& design, size_t number) {
  const JoinDesign& join = design.joins[number];
  const Station station{StationKind::kJoin, number};
  const std::string name = fmt::format("join_{}", number);
  const StationStreams streams = streams_of(design, station);
  const MapDesign& made = *design.output_of(station);
  const int64_t groups = all_groups(made.channels, design.lanes);
  std::string text =
      fmt::format("\n  // ===== {}: {} of {} maps.\n", join.layer, join.concatenates ? "a concatenation" : "the sum", join.operands.size());
  std::vector<std::string> back;
  std::vector<Groups> ranges;
  std::string sum, behind;
  Groups summed;
  for (size_t operand = 0; operand < join.operands.size(); ++operand) {
    const StationStreams mine = streams_of(design, station, operand);
    const ChannelRange& place = join.places[operand];
    const Groups range = groups_of(place, {0, made.layer_channels}, design.lanes);
    std::string in = mine.in;
    back.push_back(mine.in_error);
    if (needs_aligning(join, operand, design.lanes)) {
      const std::string moved = fmt::format("{}_operand_{}", name, operand), error = moved + "_error";
      text += wires(moved) + wires(error);
      text += aligned(moved + "_aligner", in, moved, place.size(), 0, place.begin % design.lanes, made.width, design.lanes);
      behind += aligned(error + "_aligner", error, mine.in_error, place.size(), place.begin % design.lanes, 0, made.width, design.lanes);
      in = moved;
      back.back() = error;
    }
    ranges.push_back(range);
    if (operand == 0) {
      sum = in;
      summed = range;
      continue;
    }
    const bool last = operand + 1 == join.operands.size();
    const std::string to = last ? streams.out : fmt::format("{}_sum_{}", name, operand);
    const int64_t bits = join.bits_of_sum(operand);
    if (!last) text += wide_wires(to, design.lanes * bits);
    text += added(fmt::format("{}_adder_{}", name, operand), to, sum, summed, in, range, last ? groups : range.end, made.width,
                  design.lanes, {join.bits_of_sum(operand - 1), bits});
    sum = to;
    summed = {0, range.end};
  }
  if (join.operands.size() == 1) text += connected(streams.out, sum);
  return text + fork(name + "_fork", streams.out_error, back, ranges, groups, made.width) + behind;
}

std::string map_text(const DeviceDesign& design) {
  std::string text = "\n  // ===== Maps and their readers.\n";
  for (const MapDesign& map : design.maps) {
    text += forward_text(design, map);
    if (map.error_back) text += backward_text(design, map);
  }
  return text;
}

}  // namespace millrace
