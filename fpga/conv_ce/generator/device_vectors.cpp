#include "fpga/conv_ce/generator/device_vectors.h"

#include <algorithm>
#include <random>
#include <span>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/rtl/memory_layout.h"

namespace millrace {

namespace {

using Map = std::vector<int16_t>;

Map random_map(std::mt19937_64& random, int64_t elements, int bits) {
  Map map(to_size(elements));
  for (int16_t& element : map)
    element = static_cast<int16_t>(static_cast<int64_t>(random() % (uint64_t{1} << bits)) - (int64_t{1} << (bits - 1)));
  return map;
}

// Rows of a pooled map, as infer_shape counts them: where the whole map's last window is partial, so is the cropped one's.
int64_t pooled_rows(const ShardDesign& whole, int64_t rows) {
  const PoolingWindow& window = whole.window;
  const bool rounds_up = window.out_height > (window.height + 2 * window.pad_h - window.kernel_h) / window.stride_h + 1;
  const int64_t room = rows + 2 * window.pad_h - window.kernel_h;
  if (room < 0) return 0;
  int64_t count = room / window.stride_h + 1;
  if (rounds_up && room % window.stride_h != 0 && count * window.stride_h < rows + window.pad_h) ++count;
  return count;
}

void append(std::vector<int16_t>& beats, const BeatOrder& order, const Map& map) {
  const std::vector<int16_t> some = beats_of_map(order, map);
  beats.insert(beats.end(), some.begin(), some.end());
}

Map channels_of(const Map& map, int64_t begin, int64_t end, int64_t plane) {
  return {map.begin() + begin * plane, map.begin() + end * plane};
}

// `rest` begins at element `begin` of all; where both have something their sum saturates.
Map joined(const Map& own, const Map& rest, size_t begin) {
  Map all = own;
  all.resize(begin + rest.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool shared = begin + i < own.size();
    all[begin + i] = static_cast<int16_t>(saturated(int64_t{rest[i]} + (shared ? own[begin + i] : 0)));
  }
  return all;
}

StreamVectors& stream(std::vector<StreamVectors>& streams, const std::string& name, int64_t lanes) {
  for (StreamVectors& known : streams)
    if (known.name == name) return known;
  streams.push_back({name, {}, lanes});
  return streams.back();
}

// As the memory has them, zero behind the last channel.
std::vector<int32_t> halves_of(const NormSums& sums, int64_t lanes) {
  std::vector<int32_t> halves;
  for (size_t channel = 0; channel < to_size(lanes); ++channel)
    for (const std::vector<int64_t>* of : {&sums.distances, &sums.squares, &sums.errors, &sums.products}) {
      const int64_t sum = channel < of->size() ? (*of)[channel] : 0;
      halves.push_back(wrapped(sum));
      halves.push_back(wrapped(sum >> 32));
    }
  return halves;
}

// What one sample leaves behind on its way forward.
struct Trace {
  std::vector<Map> maps;    // of the design, the channels that are here
  std::vector<Map> errors;  // of them, added up so far
  std::vector<bool> has_errors;
  std::vector<Map> inputs;          // per shard, of its own channels
  std::vector<Map> sums;            // per unit: what its special function was given
  std::vector<Map> values;          // per unit: what was pooled
  std::vector<PooledPlane> pooled;  // per unit
};

class Runner {
 public:
  Runner(DeviceDesign design, uint64_t seed, const std::vector<StreamVectors>& given, DeviceVectors& vectors)
      : design_(std::move(design)), random_(seed), given_(given), vectors_(vectors) {
    for (const ShardDesign& shard : design_.shards) {
      gradients_.emplace_back(shard.shape.weight_elements());
      biases_.emplace_back(to_size(shard.biases()));
      gathered_.emplace_back(shard.layer_outputs);
    }
  }

  void sample() {
    Trace trace;
    trace.maps.resize(design_.maps.size());
    trace.errors.resize(design_.maps.size());
    trace.has_errors.resize(design_.maps.size());
    trace.inputs.resize(design_.shards.size());
    trace.sums.resize(design_.units());
    trace.values.resize(design_.units());
    trace.pooled.resize(design_.units());
    forward(trace);
    backward(trace);
    ++sample_;
  }

  void finish() {
    for (size_t i = 0; i < design_.shards.size(); ++i) {
      const ShardDesign& shard = design_.shards[i];
      ShardGradients found;
      found.words.resize(parameter_elements(shard.engine, shard.shape));
      size_t at = 0;
      for (int64_t output = 0; output < shard.shape.outputs; ++output)
        for (int64_t input = 0; input < shard.shape.inputs / shard.shape.groups; ++input)
          for (int64_t tap = 0; tap < shard.engine.taps(); ++tap)
            found.words[parameter_place(shard.engine, shard.shape, output, input, tap)] = gradients_[i][at++];
      found.bias = biases_[i];
      if (shard.owner && shard.running) found.gathered = halves_of(gathered_[i], shard.groups(shard.layer_outputs) * shard.lanes);
      vectors_.gradients.push_back(std::move(found));
    }
  }

 private:
  BeatOrder order(int64_t channels, int64_t height, int64_t width, int64_t block_rows = 1, int64_t first_block_rows = 1) const {
    return {channels, height, width, design_.lanes, first_block_rows, block_rows};
  }
  BeatOrder order(const MapDesign& map, const ChannelRange& channels) const { return order(channels.size(), map.height, map.width); }
  // Of the first `channels` of the layer.
  BeatOrder raw_order(const ShardDesign& shard, int64_t channels) const {
    return order(channels, shard.shape.out_height(), shard.shape.out_width(), shard.error_block_rows(), shard.error_first_block_rows());
  }
  // The next sample of an input: given, or random numbers of so many bits.
  Map taken(const std::string& name, const BeatOrder& order, int bits) {
    StreamVectors& input = stream(vectors_.inputs, name, design_.lanes);
    const auto known = std::ranges::find(given_, name, &StreamVectors::name);
    Map map;
    if (known == given_.end()) {
      map = random_map(random_, order.channels * order.height * order.width, bits);
    } else {
      const auto count = to_size(order.beats() * order.lanes);
      MILLRACE_CHECK(input.beats.size() + count <= known->beats.size(), "{} is given {} elements, too few", name, known->beats.size());
      map = map_of_beats(order, std::span(known->beats).subspan(input.beats.size(), count));
    }
    append(input.beats, order, map);
    return map;
  }
  void expect(const std::string& name, const BeatOrder& beats, const Map& map) {
    append(stream(vectors_.outputs, name, design_.lanes).beats, beats, map);
  }

  size_t place_of(const MapDesign& map) const { return to_size(&map - design_.maps.data()); }
  const MapReader& reader_of(const MapDesign& map, const Station& station, size_t operand) const {
    return *std::ranges::find_if(
        map.readers, [&](const MapReader& reader) { return !reader.next && reader.station == station && reader.operand == operand; });
  }
  // What the station reads of its map.
  Map read(const Trace& trace, const Station& station, size_t operand = 0) const {
    const MapDesign& map = design_.input_of(station, operand);
    return part_of(map, trace.maps[place_of(map)], reader_of(map, station, operand).channels);
  }
  static Map part_of(const MapDesign& map, const Map& all, const ChannelRange& channels) {
    return channels_of(all, channels.begin - map.channels.begin, channels.end - map.channels.begin, map.height * map.width);
  }
  // A reader's errors of its channels are added to those of the readers behind it.
  void add_error(Trace& trace, const MapDesign& map, const ChannelRange& channels, const Map& error) const {
    Map& sum = trace.errors[place_of(map)];
    sum.resize(trace.maps[place_of(map)].size());
    const auto begin = to_size((channels.begin - map.channels.begin) * map.height * map.width);
    for (size_t i = 0; i < error.size(); ++i) sum[begin + i] = static_cast<int16_t>(saturated(int64_t{sum[begin + i]} + error[i]));
  }
  void give_error(Trace& trace, const Station& station, const Map& error, size_t operand = 0) const {
    const MapDesign& map = design_.input_of(station, operand);
    if (map.error_back) add_error(trace, map, reader_of(map, station, operand).channels, error);
  }

  void forward(Trace& trace) {
    for (const MapDesign& map : design_.maps)
      if (map.arrives) trace.maps[place_of(map)] = taken(map.stream, order(map, map.channels), 13);
    for (const Station& station : design_.stations) {
      Map made;
      if (station.kind == StationKind::kJoin)
        made = joined_maps(trace, station);
      else
        made = after_sum(trace, design_.unit_of(station),
                         station.kind == StationKind::kShard ? sums_of(trace, station) : read(trace, station));
      if (const MapDesign* map = design_.output_of(station)) trace.maps[place_of(*map)] = std::move(made);
    }
    for (const MapDesign& map : design_.maps)
      for (const MapReader& reader : map.readers)
        if (reader.next) expect(reader.stream, order(map, reader.channels), part_of(map, trace.maps[place_of(map)], reader.channels));
  }

  Map joined_maps(const Trace& trace, const Station& station) {
    const JoinDesign& join = design_.joins[station.index];
    Map made = read(trace, station);
    std::vector<int64_t> sums(made.begin(), made.end());
    for (size_t operand = 1; operand < join.operands.size(); ++operand) {
      const Map other = read(trace, station, operand);
      if (join.concatenates) made.insert(made.end(), other.begin(), other.end());
      for (size_t i = 0; i < other.size() && !join.concatenates; ++i) sums[i] += other[i];
    }
    for (size_t i = 0; i < sums.size() && !join.concatenates; ++i) made[i] = static_cast<int16_t>(saturated(sums[i]));
    return made;
  }

  Map sums_of(Trace& trace, const Station& station) {
    const ShardDesign& shard = design_.shards[station.index];
    const ConvolutionShape& s = shard.shape;
    Map own = read(trace, station);
    if (shard.flat) own = beats_of_map(*shard.flat, own);
    std::vector<int32_t> accumulators(s.output_elements());
    const int64_t out_plane = s.out_height() * s.out_width();
    Map before;  // the sums of other outputs
    if (shard.appends_sums()) {
      before = taken("s_partial", order(shard.outputs_before, s.out_height(), s.out_width()), 13);
    } else if (!shard.first) {
      const Map partials = taken("s_partial", order(s.outputs, s.out_height(), s.out_width()), 13);
      accumulators = from_partials(partials, shard.formats.sum_shift(), counters_);
    }
    accumulate_forward(s, own, shard.weight, accumulators, counters_);
    Map sums = to_elements(accumulators, shard.formats.sum_shift(), counters_);
    if (shard.appends_sums()) sums = joined(before, sums, to_size(shard.outputs.begin * out_plane));
    trace.inputs[station.index] = own;
    return sums;
  }

  Map after_sum(Trace& trace, size_t number, const Map& sums) {
    const ShardDesign& unit = design_.unit(number);
    trace.sums[number] = sums;
    if (!unit.owner) {
      expect("m_partial", order(unit.outputs.end, unit.shape.out_height(), unit.shape.out_width()), sums);
      return {};
    }
    Map& values = trace.values[number];
    PooledPlane& pooled = trace.pooled[number];
    values = scaled_and_offset(sums, unit.layer_outputs,
                               {.scale = unit.scale,
                                .offset = unit.bias,
                                .offset_shift = unit.scale_shift,
                                .shift = unit.scale_shift,
                                .relu = unit.relu,
                                .slope = unit.slope},
                               counters_);
    if (unit.smooth) values = smoothed(*unit.smooth, values, counters_);
    const Map normed = unit.response ? responded(*unit.response, unit.layer_outputs, values, counters_) : values;
    if (unit.pooled)
      pooled = pooled_forward(unit.window, unit.layer_outputs, normed, counters_);
    else
      pooled = {normed, std::vector<int16_t>(normed.size())};
    if (!unit.dropout) return pooled.values;
    return dropped_out(pooled.values, draws_of_test(unit, sample_ + 1), to_size(sample_), counters_);
  }

  void backward(Trace& trace) {
    const ShardDesign& tail = design_.shards.back();
    Map raw_error;  // where another device ends the group
    if (!tail.owner) raw_error = taken("s_error", raw_order(tail, tail.outputs.end), 11);
    for (const MapDesign& map : design_.maps)
      for (const MapReader& reader : map.readers)
        if (reader.next && map.error_back)
          add_error(trace, map, reader.channels, taken(reader.error_stream, order(map, reader.channels), 11));
    for (size_t i = design_.stations.size(); i-- > 0;) {
      const Station& station = design_.stations[i];
      const MapDesign* made = design_.output_of(station);
      const Map error = made == nullptr ? raw_error : trace.errors[place_of(*made)];
      if (station.kind == StationKind::kJoin) {
        const JoinDesign& join = design_.joins[station.index];
        for (size_t operand = join.operands.size(); operand-- > 0;)
          give_error(trace, station, part_of(*made, error, join.places[operand]), operand);
        continue;
      }
      const Map raw = made == nullptr ? error : before_sum(trace, design_.unit_of(station), error);
      if (station.kind == StationKind::kTail)
        give_error(trace, station, raw);
      else
        engines_back(trace, station, raw);
    }
    for (const MapDesign& map : design_.maps)
      if (map.arrives && map.error_back) expect(map.error_stream, order(map, map.channels), trace.errors[place_of(map)]);
  }

  // Errors of a unit's output become those of its sum.
  Map before_sum(const Trace& trace, size_t number, Map raw) {
    const ShardDesign& unit = design_.unit(number);
    if (unit.dropout) raw = dropped_out(raw, draws_of_test(unit, sample_ + 1), to_size(sample_), counters_);
    // Behind a maximum the ReLU let pass where the output is above zero; an average hides it.
    if (unit.relu && !unit.window.average && !unit.response) raw = error_through_relu(trace.pooled[number].values, raw, unit.slope);
    raw = pooled_back(unit.window, unit.layer_outputs, raw, trace.pooled[number], counters_);
    if (unit.smooth) raw = smooth_back(*unit.smooth, trace.values[number], raw, counters_);
    if (unit.response) {
      raw = response_back(*unit.response, unit.layer_outputs, trace.values[number], raw, counters_);
      if (unit.relu) raw = error_through_relu(trace.values[number], raw);
    }
    if (unit.masks_errors()) raw = error_through_relu(trace.values[number], raw, unit.slope);
    if (unit.running)
      return error_through_running_norm(unit.norm, unit.scale, unit.scale_shift, unit.layer_outputs, trace.sums[number], raw,
                                        gathered_[number], counters_);
    if (unit.normalised) raw = error_through_scale(raw, unit.layer_outputs, unit.scale, unit.scale_shift, counters_);
    return raw;
  }

  void engines_back(Trace& trace, const Station& station, Map raw) {
    const size_t i = station.index;
    const ShardDesign& shard = design_.shards[i];
    const ConvolutionShape& s = shard.shape;
    const int64_t out_plane = s.out_height() * s.out_width();
    if (!shard.first) expect("m_raw_error", raw_order(shard, shard.sums_before()), channels_of(raw, 0, shard.sums_before(), out_plane));
    if (shard.sums_all_biases()) accumulate_bias_gradient(s, raw, biases_[i], counters_);
    if (shard.outputs_divided) raw = channels_of(raw, shard.outputs.begin, shard.outputs.end, out_plane);
    if (!shard.sums_all_biases()) accumulate_bias_gradient(s, raw, biases_[i], counters_);
    accumulate_gradient(s, trace.inputs[i], raw, gradients_[i], counters_);
    if (!shard.error_back) return;
    std::vector<int32_t> accumulators(s.input_elements());
    accumulate_error_back(s, raw, shard.weight, accumulators, counters_);
    Map errors = to_elements(accumulators, shard.formats.error_shift(), counters_);
    if (shard.flat) errors = map_of_beats(*shard.flat, errors);
    give_error(trace, station, errors);
  }

  const DeviceDesign design_;
  int64_t sample_ = 0;
  std::mt19937_64 random_;
  const std::vector<StreamVectors>& given_;
  DeviceVectors& vectors_;
  ArithmeticCounters counters_;
  std::vector<std::vector<int32_t>> gradients_, biases_;
  std::vector<NormSums> gathered_;
};

}  // namespace

DropoutDraws draws_of_test(const ShardDesign& shard, int64_t samples) {
  std::vector<int64_t> sample_ids;
  for (int64_t sample = 0; sample < samples; ++sample) sample_ids.push_back(11 + sample * 7919 % 1000);
  constexpr int64_t kApart = 1000;  // the same for cropped maps
  return dropout_draws(*shard.dropout, /*seed=*/1, shard.dropout_layer, /*epoch=*/3, sample_ids, kApart, /*training=*/true);
}

std::optional<DeviceDesign> cropped_design(const DeviceDesign& design, int64_t rows) {
  DeviceDesign cropped = design;
  const int64_t all = design.maps.front().height;
  for (MapDesign& map : cropped.maps) {
    if (!map.arrives) continue;
    if (rows * map.height % all != 0 || rows * map.height < all) return std::nullopt;  // no whole row of it
    map.height = rows * map.height / all;
  }
  for (const Station& station : cropped.stations) {
    const auto out = [&cropped, &station]() -> MapDesign* { return const_cast<MapDesign*>(cropped.output_of(station)); };
    const int64_t height = cropped.input_of(station).height;
    if (station.kind == StationKind::kJoin) {
      for (size_t operand = 0; operand < cropped.joins[station.index].operands.size(); ++operand)
        if (cropped.input_of(station, operand).height != height) return std::nullopt;
      out()->height = height;
      continue;
    }
    const size_t number = cropped.unit_of(station);
    ShardDesign& unit = station.kind == StationKind::kShard ? cropped.shards[station.index] : cropped.tails[station.index];
    const ConvolutionShape& s = unit.shape;
    if (unit.flat && unit.flat->height != height) return std::nullopt;
    if (!unit.flat) unit.shape.height = height;
    if (s.height + 2 * s.pad_h < s.kernel_h) return std::nullopt;
    unit.window.height = unit.shape.out_height();
    unit.window.out_height = unit.pooled ? pooled_rows(design.unit(number), unit.window.height) : unit.window.height;
    if (unit.window.height + 2 * unit.window.pad_h < unit.window.kernel_h || unit.window.out_height < 1) return std::nullopt;
    if (MapDesign* map = out()) map->height = unit.window.out_height;
  }
  return cropped;
}

int64_t fewest_rows(const DeviceDesign& design) {
  const int64_t all = design.maps.front().height;
  for (int64_t rows = 1; rows < all; ++rows) {
    const std::optional<DeviceDesign> cropped = cropped_design(design, rows);
    const auto works = [](const ShardDesign& unit) { return unit.window.out_height >= 2; };
    if (cropped && std::ranges::all_of(cropped->shards, works) && std::ranges::all_of(cropped->tails, works)) return rows;
  }
  return all;
}

DeviceVectors device_vectors(const DeviceDesign& design, int64_t rows, int64_t samples, uint64_t seed,
                             const std::vector<StreamVectors>& given) {
  DeviceVectors vectors;
  vectors.rows = rows;
  vectors.samples = samples;
  std::optional<DeviceDesign> cropped = cropped_design(design, rows);
  MILLRACE_CHECK(cropped.has_value(), "device {} cannot be cropped to {} rows", design.index, rows);
  Runner runner(std::move(*cropped), seed, given, vectors);
  for (int64_t sample = 0; sample < samples; ++sample) runner.sample();
  runner.finish();
  return vectors;
}

}  // namespace millrace
