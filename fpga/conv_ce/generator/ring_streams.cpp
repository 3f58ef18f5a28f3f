#include "fpga/conv_ce/generator/ring_streams.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/generator/stream_links.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/weight_streams.h"

namespace millrace {

namespace {

// From an engine's step to its result, and what stands behind an engine: rounding, scales, forks.
constexpr int64_t kEngineLatency = 7, kErrorBackLatency = 10, kPoolingLatency = 6, kUnpoolingLatency = 6;
// Of a memory outside: a burst comes together, is written and answered, asked for and read.
constexpr int64_t kOutsideLatency = 2 * 100 + 2 * kBurstBeats;
constexpr int64_t kQueueLatency = 4, kScaleLatency = 2, kAverageLatency = 2, kRunningLatency = 4;
// Beats that wait in a module's own FIFO.
constexpr double kWaitingSums = 16, kWaitingPooled = 8;
// Sweeps whose results wait to be sent, on the way back; slots of an adapter.
constexpr double kErrorSlots = 4, kAdapterSlots = 4;

// Until the pipeline is full and the same happens with every sample, and as many again to count.
constexpr int64_t kSamples = 16;
// With a device that takes them: it makes one, and one comes together, each way.
constexpr int64_t kMicroBatchesOnTheirWay = 4;
// Than the pace that is kept, when memories are measured: what came as fast would pile up.
constexpr double kSlightlySlower = 1.0005;

int64_t banks_of(int bits) { return int64_t{1} << bits; }

class DeviceStreams {
 public:
  DeviceStreams(const PlacedDesign& placed, RingStreams& ring, StreamsOfPorts& ports)
      : design_(*placed.design), outside_(outside_fifos(design_)), cycle_(placed.cycle_seconds), ring_(ring), ports_(ports) {}

  void add() {
    for (const MapDesign& map : design_.maps) add_map(map);
    for (size_t join = 0; join < design_.joins.size(); ++join) add_join(join);
    for (size_t i = 0; i < design_.shards.size(); ++i) add_shard(i);
    for (size_t i = 0; i < design_.tails.size(); ++i) {
      const Station station{StationKind::kTail, i};
      const ShardDesign& tail = design_.tails[i];
      const size_t raw = after_sum(tail, in_of(station), station);
      if (in_map(station).error_back) join(raw, error_of(station));
    }
  }

 private:
  // --- Streams, in cycles of the device.
  size_t stream(int64_t rows, int64_t row_cycles) { return blocks({.rows = rows}, row_cycles); }
  size_t blocks(const RowBlocks& blocks, int64_t row_cycles) {
    return ring_.timing.stream(blocks, cycle_ * static_cast<double>(row_cycles));
  }
  void join(size_t a, size_t b) { ring_.timing.join(a, b); }
  void queue(RowQueue queue, int64_t latency, WaitingMemory memory = {}) {
    queue.latency += cycle_ * static_cast<double>(latency);
    queue.end_latency += cycle_ * static_cast<double>(latency);
    queue.waits = memory.waits();
    ring_.timing.queue(queue);
    memory.device = design_.index;
    ring_.memories.push_back(std::move(memory));
  }
  // A memory of so many beats, between two streams.
  void remember(size_t in, size_t out, int64_t beats, const WaitingMemory& memory) {
    WaitingMemory own = memory;
    int64_t latency = kQueueLatency;
    own.room_rows = static_cast<double>(beats) / static_cast<double>(memory.row_beats);
    for (const OutsideFifo& fifo : outside_) {  // which both sides pass at the port's pace
      if (fifo.of != memory.place) continue;
      const int64_t read_ahead = kStreamedBeats * fifo.room->beat_bits / fifo.word_bits;  // whose places are free again
      own.room_rows = static_cast<double>(fifo.room->samples * memory.sample_rows) +
                      static_cast<double>(read_ahead) / static_cast<double>(memory.row_beats);
      latency = kOutsideLatency;
      for (const size_t stream : {in, out}) ring_.timing.slow_down(stream, seconds(fifo.cycles_of(memory.row_beats)));
    }
    queue({.in = in, .out = out, .rows = own.room_rows}, latency, own);
  }
  // A group of the wider stream is complete only when several of the narrower have gone over the block's pixels.
  // `map_rows`: of which its row is one to the adapter.
  size_t adapted(size_t in, const RowBlocks& order, int64_t row_cycles, int64_t channels, const AdapterMemory& memory, int64_t in_lanes,
                 int64_t out_lanes, int64_t width, int64_t map_rows = 1) {
    const size_t out = blocks(order, row_cycles);
    const auto of_block = static_cast<double>(divided_up(channels, banks_of(memory.banks)));
    const int64_t block = std::max(order.block_rows, order.first_block_rows), pixels = block * width;
    queue({.in = in,
           .out = out,
           .rows = static_cast<double>(block * map_rows) * (kAdapterSlots - 1) / of_block,
           .latency = seconds(divided_up(std::min(out_lanes, channels), in_lanes) * pixels),
           .end_latency = seconds(pixels)},
          kQueueLatency);
    return out;
  }
  // So many steps that stand still together.
  size_t delayed(size_t in, int64_t rows, int64_t row_cycles, int64_t steps) {
    const size_t out = stream(rows, row_cycles);
    queue({.in = in, .out = out, .rows = static_cast<double>(steps) / static_cast<double>(row_cycles)}, steps);
    return out;
  }
  size_t sorted(size_t in, int64_t rows, int64_t row_cycles, const SorterMemory& memory) {
    const size_t out = stream(rows, row_cycles);
    queue({.in = in, .out = out, .rows = static_cast<double>(banks_of(memory.row_banks)), .sorts = true}, kQueueLatency);
    return out;
  }
  void port(const std::string& name, size_t stream) { ports_[name] = stream; }

  // --- Maps.
  struct MapStreams {
    size_t all = 0, error = 0;
    std::vector<size_t> readers, reader_errors;
  };
  int64_t beats(const ChannelRange& channels, int64_t width) const { return divided_up(channels.size(), design_.lanes) * width; }

  void add_map(const MapDesign& map) {
    const int64_t row = beats(map.channels, map.width);
    MapStreams streams{.all = stream(map.height, row), .error = stream(map.height, row), .readers = {}, .reader_errors = {}};
    for (const MapReader& reader : map.readers) {
      const int64_t own = beats(reader.channels, map.width);
      const RoomPlace::Kind kMap = RoomPlace::Kind::kMap, kErrors = RoomPlace::Kind::kErrors;
      const auto waiting = [&](int64_t room, size_t in, size_t out, const char* what, RoomPlace::Kind kind) {
        const RoomPlace place{kind, maps_.size(), streams.readers.size()};
        if (room > 0)
          remember(in, out, room, {.layer = map.layer, .memory = what, .place = place, .sample_rows = map.height, .row_beats = own});
        else
          join(in, out);
      };
      const size_t there = stream(map.height, own), back = stream(map.height, own);
      waiting(reader.waiting_beats, streams.all, there, reader.next ? "map on its way to the next device" : "map that waits for a join",
              kMap);
      if (map.error_back) waiting(reader.error_beats, back, streams.error, "errors that wait for others", kErrors);
      streams.readers.push_back(there);
      streams.reader_errors.push_back(back);
      if (!reader.next) continue;
      port(reader.stream, there);
      if (map.error_back) port(reader.error_stream, back);
    }
    if (map.arrives) {
      port(map.stream, streams.all);
      if (map.error_back) port(map.error_stream, streams.error);
    }
    maps_.push_back(streams);
  }

  const MapDesign& in_map(const Station& station, size_t operand = 0) const { return design_.input_of(station, operand); }
  size_t index_of(const MapDesign& map) const { return to_size(&map - design_.maps.data()); }
  size_t reader_of(const MapDesign& map, const Station& station, size_t operand) const {
    for (size_t r = 0; r < map.readers.size(); ++r)
      if (!map.readers[r].next && map.readers[r].station == station && map.readers[r].operand == operand) return r;
    MILLRACE_CHECK(false, "{} is not read there", map.layer);
  }
  size_t in_of(const Station& station, size_t operand = 0) const {
    const MapDesign& map = in_map(station, operand);
    return maps_[index_of(map)].readers[reader_of(map, station, operand)];
  }
  size_t error_of(const Station& station, size_t operand = 0) const {
    const MapDesign& map = in_map(station, operand);
    return maps_[index_of(map)].reader_errors[reader_of(map, station, operand)];
  }

  void add_join(size_t number) {
    const JoinDesign& design = design_.joins[number];
    const Station station{StationKind::kJoin, number};
    const MapDesign& made = *design_.output_of(station);
    const MapStreams& out = maps_[index_of(made)];
    for (size_t operand = 0; operand < design.operands.size(); ++operand) {
      const MapDesign& map = in_map(station, operand);
      join(in_of(station, operand), out.all);
      if (map.error_back) join(error_of(station, operand), out.error);
      if (needs_aligning(design, operand, design_.lanes)) {
        const int64_t row = (divided_up(map.layer_channels, design_.lanes) + 1) * map.width;
        ring_.timing.slow_down(out.all, cycle_ * static_cast<double>(row));
      }
    }
  }

  // --- Engines.
  double seconds(int64_t cycles) const { return cycle_ * static_cast<double>(cycles); }

  // Of what an engine reads, as the map's other readers know it: a map that is taken flat is one row of the engine's.
  struct MapRows {
    int64_t rows, beats;  // of a row
    int64_t of_one;       // of the engine's
  };
  static MapRows map_rows(const ShardDesign& shard) {
    const int64_t of_one = shard.flat ? shard.flat->height : 1;
    const int64_t row = shard.engine.groups_of_inputs(shard.shape.inputs) * shard.shape.width;
    return {shard.shape.height * of_one, divided_up(row, of_one), of_one};
  }

  void add_shard(size_t index) {
    const ShardDesign& shard = design_.shards[index];
    const ConvolutionShape& s = shard.shape;
    const Station station{StationKind::kShard, index};
    const EngineSweeps sweeps = sweeps_of(shard.engine, s);
    const MapRows map = map_rows(shard);
    const int64_t in_row = map.beats, out_row = sweeps.output_groups * s.out_width();
    const StreamCycles ports = shard.streams ? weight_stream_cycles(*shard.streams, shard.engine, s) : StreamCycles{};

    const size_t in = in_of(station);
    const size_t lanes = shard.adapts_inputs() ? adapted(in, {.rows = map.rows}, in_row, s.inputs, shard.input_adapter(), shard.lanes,
                                                         shard.engine.input_lanes, s.width, map.of_one)
                                               : in;
    const size_t kept = stream(map.rows, in_row);
    remember(lanes, kept, shard.act_ram_beats,
             {.layer = shard.layer,
              .memory = "Act-RAM",
              .place = {RoomPlace::Kind::kActRam, index},
              .sample_rows = map.rows,
              .row_beats = in_row});

    // FP.
    const int64_t sweep = forward_sweep_cycles(sweeps.load_words, s.out_width());
    const int64_t compute = std::max(sweeps.output_groups * sweeps.input_sweeps * sweep, divided_up(ports.forward, s.out_height()));
    size_t made = stream(s.out_height(), out_row);
    std::optional<size_t> partial;
    if (!shard.first && !shard.outputs_divided) {
      partial = stream(s.out_height(), beats({0, shard.layer_outputs}, s.out_width()));
      port("s_partial", *partial);
    }
    ring_.timing.stage({.reads = {{.stream = lanes,
                                   .steps = s.out_height(),
                                   .map_rows = map.rows,
                                   .first_top = -s.pad_h,
                                   .stride = s.stride_h,
                                   .window_rows = s.kernel_h * map.of_one,
                                   .banks = banks_of(shard.memories.row_banks) * map.of_one}},
                        .adds = partial,
                        .out = made,
                        .compute = seconds(compute),
                        .first = seconds((sweeps.input_sweeps - 1) * sweep),
                        .latency = seconds(kEngineLatency),
                        .ahead = kWaitingSums / static_cast<double>(out_row)});
    const int64_t sum_row = beats({0, s.outputs}, s.out_width());
    if (shard.adapts_outputs())
      made = adapted(made, {.rows = s.out_height()}, sum_row, s.outputs, shard.sum_adapter(), shard.engine.output_lanes, shard.lanes,
                     s.out_width());
    if (shard.appends_sums()) {
      const size_t before = stream(s.out_height(), beats({0, shard.outputs.end}, s.out_width()));
      port("s_partial", before);
      join(made, before);
    }

    size_t raw = 0;
    const RowBlocks error_rows{
        .rows = s.out_height(), .first_block_rows = shard.error_first_block_rows(), .block_rows = shard.error_block_rows()};
    if (shard.owner) {
      raw = after_sum(shard, made, station);
    } else {
      port("m_partial", made);
      raw = blocks(error_rows, beats({0, shard.sums_before()}, s.out_width()));
      port("s_error", raw);
    }
    if (!shard.first) {
      const size_t upstream = blocks(error_rows, 1);
      join(raw, upstream);
      port("m_raw_error", upstream);
    }
    const size_t errors = shard.adapts_outputs() ? adapted(raw, error_rows, out_row, s.outputs, shard.error_adapter(), shard.lanes,
                                                           shard.engine.output_lanes, s.out_width())
                                                 : raw;
    add_gradient(shard, kept, errors, ports.gradient);
    if (shard.error_back) add_error_back(shard, station, errors, ports.error_back);
  }

  void add_gradient(const ShardDesign& shard, size_t kept, size_t errors, int64_t port_cycles) {
    const int64_t samples = shard.gradient_samples();
    const ConvolutionShape wide = shard.gradient_shape();
    const EngineSweeps sweeps = sweeps_of(shard.engine, wide);
    const int64_t sweep = std::max({wide.out_width(), sweeps.load_words, int64_t{2}});
    const int64_t compute = std::max({sweeps.output_groups * sweeps.input_sweeps * sweep, sweeps.output_groups * wide.out_width(),
                                      divided_up(port_cycles * samples, wide.out_height())});
    RowWindow activations{.stream = kept,
                          .steps = wide.out_height(),
                          .map_rows = map_rows(shard).rows,
                          .first_top = -wide.pad_h,
                          .stride = wide.stride_h,
                          .window_rows = wide.kernel_h * map_rows(shard).of_one,
                          .banks = banks_of(shard.gradient_memories.row_banks) * map_rows(shard).of_one};
    RowWindow rows{.stream = errors,
                   .steps = wide.out_height(),
                   .map_rows = wide.out_height(),
                   .window_rows = 1,
                   .banks = banks_of(shard.gradient_memories.gradient_error_row_banks)};
    if (samples > 1) {  // which wait until all are there, twice
      activations.map_rows *= samples;
      activations.window_rows = activations.map_rows;
      activations.banks += 2 * activations.map_rows;
      rows.map_rows *= samples;
      rows.window_rows = rows.map_rows;
      rows.banks += 2 * rows.map_rows;
    }
    ring_.timing.stage({.reads = {activations, rows}, .compute = seconds(compute), .samples_of_pass = samples});
  }

  void add_error_back(const ShardDesign& shard, const Station& station, size_t errors, int64_t port_cycles) {
    const ConvolutionShape& s = shard.shape;
    const EngineSweeps sweeps = sweeps_of(shard.engine, s);
    const ErrorBackSteps steps = error_back_steps(s);
    const MapRows map = map_rows(shard);
    const int64_t sweep = forward_sweep_cycles(sweeps.load_words, steps.columns);
    const int64_t part = sweeps.output_groups / shard.engine.channel_groups * sweep;
    const int64_t made_rows = steps.rows * map.of_one;  // steps of rows: of a flat map a part each
    const double compute =
        seconds(std::max(sweeps.input_groups * part, divided_up(port_cycles, steps.rows))) / static_cast<double>(map.of_one);
    const size_t made =
        blocks({.rows = map.rows, .first_block_rows = steps.first_block_rows, .block_rows = shard.engine.stride}, map.beats);
    ring_.timing.stage({.reads = {{.stream = errors,
                                   .steps = made_rows,
                                   .map_rows = s.out_height(),
                                   .first_top = steps.first - shard.engine.span() + 1,
                                   .stride = 1,
                                   .window_rows = shard.engine.span(),
                                   .banks = banks_of(shard.memories.error_row_banks),
                                   .steps_of_window = map.of_one}},
                        .out = made,
                        .compute = compute,
                        .first = std::min(seconds(part), compute),
                        .latency = seconds(kErrorBackLatency),
                        .ahead = kErrorSlots * static_cast<double>(map.of_one) / static_cast<double>(sweeps.input_groups),
                        .tail = seconds(sweep)});
    size_t rows = shard.sorts_errors() ? sorted(made, map.rows, map.beats, shard.sorter()) : made;
    if (shard.adapts_inputs())
      rows = adapted(rows, {.rows = map.rows}, beats({0, s.inputs}, s.width) / map.of_one, s.inputs, shard.input_adapter(),
                     shard.engine.input_lanes, shard.lanes, s.width, map.of_one);
    join(rows, error_of(station));
  }

  // --- What follows a sum, and the way back to the errors of the raw sum, which are returned.
  size_t after_sum(const ShardDesign& unit, size_t sum, const Station& station) {
    const PoolingWindow& w = unit.window;
    const int64_t groups = unit.groups(unit.layer_outputs), row = groups * w.width, out_row = groups * w.out_width;
    const EngineMemories pool = pooling_memories(unit);
    const auto memory = [&](size_t in, RoomPlace::Kind kind, const char* what) {
      const size_t out = stream(w.height, row);
      remember(in, out, unit.mask_beats,
               {.layer = unit.layer, .memory = what, .place = {kind, design_.unit_of(station)}, .sample_rows = w.height, .row_beats = row});
      return out;
    };
    std::vector<size_t> with_rows;  // what meets the errors of the map before the pooling
    if (unit.running) with_rows.push_back(memory(sum, RoomPlace::Kind::kNorm, "sums of the norm"));
    size_t values = delayed(sum, w.height, row, kScaleLatency);
    if (unit.keeps_values())
      with_rows.push_back(memory(values, RoomPlace::Kind::kNorm, unit.smooth ? "values of the activation" : "values of the norm"));
    if (unit.response) values = response(unit, values, w.height, row);
    if (unit.masks_errors()) with_rows.push_back(memory(values, RoomPlace::Kind::kMasks, "mask of the ReLU"));

    const MapDesign& map = *design_.output_of(station);
    const MapStreams& made = maps_[index_of(map)];
    const bool row_by_row = w.is_large(), overlapping = row_by_row && w.overlaps();
    // Of a row of the map, which windows that overlap may take longer over than a beat per cycle.
    const int64_t gathered = overlapping ? divided_up(pooling_row_cycles(w, groups), w.stride_h) : row;
    const int64_t spread = overlapping ? divided_up(unpooling_row_cycles(w, groups), w.stride_h) : row;
    size_t out = values;
    if (unit.pooled) {
      if (gathered > row) ring_.timing.slow_down(values, seconds(gathered));
      out = stream(w.out_height, out_row);
      ring_.timing.stage({.reads = {{.stream = values,
                                     .steps = w.out_height,
                                     .map_rows = w.height,
                                     .first_top = -w.pad_h,
                                     .stride = w.stride_h,
                                     .window_rows = w.kernel_h,
                                     .banks = banks_of(pool.row_banks)}},
                          .out = out,
                          .compute = seconds(out_row),
                          .first = seconds(1),
                          .latency = seconds(kPoolingLatency),
                          .ahead = kWaitingPooled / static_cast<double>(out_row)});
    }
    join(out, made.all);
    if (unit.dropout) {
      const int64_t dropped = divided_up(cycles_of_dropout(unit), w.out_height);
      ring_.timing.slow_down(out, seconds(dropped));
      ring_.timing.slow_down(made.error, seconds(dropped));
    }
    if (!w.average) {
      const size_t winners = stream(w.out_height, out_row);
      remember(out, winners, unit.kept_beats,
               {.layer = unit.layer,
                .memory = "winners",
                .place = {RoomPlace::Kind::kWinners, design_.unit_of(station)},
                .sample_rows = w.out_height,
                .row_beats = out_row});
      join(winners, made.error);
    }

    const ErrorBackSteps steps = unpooling_steps(w);
    const int64_t span = divided_up(w.kernel_h, w.stride_h);
    size_t back = row_by_row ? stream(w.height, row)
                             : blocks({.rows = w.height, .first_block_rows = steps.first_block_rows, .block_rows = w.stride_h}, row);
    ring_.timing.stage({.reads = {{.stream = made.error,
                                   .steps = row_by_row ? w.height : steps.rows,
                                   .map_rows = w.out_height,
                                   .first_top = (row_by_row ? 0 : steps.first) - span + 1,
                                   .stride = 1,
                                   .window_rows = span,
                                   .banks = banks_of(pool.error_row_banks),
                                   .steps_of_window = row_by_row ? w.stride_h : 1,
                                   .missing_steps = row_by_row ? w.pad_h : 0}},
                        .out = back,
                        .compute = row_by_row ? seconds(spread) : seconds(groups * steps.columns),
                        .first = row_by_row ? seconds(1 + w.pad_w / w.stride_w) : seconds(steps.columns),
                        .latency = seconds(kUnpoolingLatency + (w.average ? kAverageLatency : 0)),
                        .ahead = kErrorSlots / static_cast<double>(groups)});
    if (unit.sorts_unpooled()) back = sorted(back, w.height, row, unit.unpooled_sorter());
    if (unit.response) back = response(unit, back, w.height, row);
    for (const size_t waits : with_rows) join(waits, back);
    if (!unit.normalised) return back;
    const RowBlocks order{.rows = w.height, .first_block_rows = unit.error_first_block_rows(), .block_rows = unit.error_block_rows()};
    const int64_t steps_of_norm = unit.running ? kRunningLatency : kScaleLatency;
    const size_t raw = blocks(order, row);
    queue({.in = back, .out = raw, .rows = static_cast<double>(steps_of_norm) / static_cast<double>(row)}, steps_of_norm);
    return raw;
  }

  // Groups of channels beside wait for each other.
  size_t response(const ShardDesign& unit, size_t in, int64_t rows, int64_t row_cycles) {
    const int64_t reach = divided_up(unit.response->half, unit.lanes);
    const size_t out = stream(rows, row_cycles);
    const double held = static_cast<double>((reach + 1) * unit.window.width) / static_cast<double>(row_cycles);
    queue({.in = in, .out = out, .rows = std::max(held, 1.0)}, reach * unit.window.width + kEngineLatency);
    return out;
  }

  const DeviceDesign& design_;
  std::vector<OutsideFifo> outside_;
  double cycle_;
  RingStreams& ring_;
  StreamsOfPorts& ports_;
  std::vector<MapStreams> maps_;
};

}  // namespace

RingStreams::RingStreams(const std::vector<PlacedDesign>& designs, bool closed) {
  std::vector<StreamsOfPorts> ports(designs.size());
  for (size_t i = 0; i < designs.size(); ++i)
    if (designs[i].design != nullptr) DeviceStreams(designs[i], *this, ports[i]).add();
  const StreamsOfPorts& last = ports.back();
  source = link_devices(designs, ports, timing);
  if (!closed) return;
  const auto scores = last.find("m_activation"), errors = last.find("s_error");
  if (scores != last.end() && errors != last.end()) timing.host(scores->second, errors->second);
}

int64_t counted_samples(const std::vector<PlacedDesign>& designs) {
  int64_t together = 1, batches = 0, micro_batch = 1;
  for (const PlacedDesign& placed : designs) {
    together = std::lcm(together, placed.design != nullptr ? placed.design->sample_multiple() : placed.micro_batch);
    if (placed.design == nullptr) batches += kMicroBatchesOnTheirWay;
    micro_batch = std::max(micro_batch, placed.micro_batch);
  }
  return rounded_up(std::max(kSamples, 2 * batches * micro_batch), 2 * together);
}

double engines_seconds(const std::vector<PlacedDesign>& designs) {
  double slowest = 0;
  for (const PlacedDesign& placed : designs)
    slowest = std::max(slowest, placed.design != nullptr
                                    ? placed.cycle_seconds * static_cast<double>(slowest_stage(device_cycles(*placed.design)).cycles)
                                    : placed.micro_batch_seconds / static_cast<double>(placed.micro_batch));
  return slowest;
}

RowTimes easy_times(const RingStreams& ring, const std::vector<PlacedDesign>& designs, double engines_seconds) {
  const int64_t samples = counted_samples(designs);
  RowRun easy{
      .samples = samples + samples / 2, .unlimited = true, .source = ring.source, .source_period = kSlightlySlower * engines_seconds};
  RowTimes times = ring.timing.run(easy);
  if (times.period <= kSlightlySlower * easy.source_period) return times;
  easy.source_period = kSlightlySlower * times.period;  // pipelines run empty between small maps
  return ring.timing.run(easy);
}

}  // namespace millrace
