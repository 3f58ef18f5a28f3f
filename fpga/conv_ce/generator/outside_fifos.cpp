#include "fpga/conv_ce/generator/outside_fifos.h"

#include <fmt/format.h>

#include <algorithm>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/outside_room.h"

namespace millrace {

namespace {

constexpr int64_t kPage = 4096;

OutsideRoom& room_outside(ShardDesign& unit, RoomPlace::Kind kind) {
  if (kind == RoomPlace::Kind::kActRam) return unit.act_ram_outside;
  return kind == RoomPlace::Kind::kWinners ? unit.winners_outside : unit.norm_outside;
}

// Of the unit of this number.
void add_movable(const DeviceDesign& design, size_t i, std::vector<OutsideFifo>& fifos) {
  const ShardDesign& unit = design.unit(i);
  const auto add = [&](RoomPlace::Kind kind, const char* name, const char* memory, int64_t word_bits, int64_t rows, int64_t row_words,
                       const OutsideRoom& room) {
    fifos.push_back({.of = {kind, i},
                     .name = fmt::format("shard_{}_{}", i, name),
                     .layer = unit.layer,
                     .memory = memory,
                     .word_bits = word_bits,
                     .rows = rows,
                     .row_words = row_words,
                     .room = &room});
  };
  if (!unit.is_tail)
    add(RoomPlace::Kind::kActRam, "act_ram", "Act-RAM", unit.act_ram_memory().width, unit.shape.height,
        act_ram_words(unit.engine, unit.shape) / unit.shape.height, unit.act_ram_outside);
  if (!unit.owner) return;
  const PoolingWindow& w = unit.window;
  const int64_t groups = unit.groups(unit.layer_outputs);
  if (unit.running)
    add(RoomPlace::Kind::kNorm, "sum_ram", "sums of the norm", unit.norm_memory().width, w.height, groups * w.width, unit.norm_outside);
  if (unit.keeps_values())
    add(RoomPlace::Kind::kNorm, unit.smooth ? "smooth_ram" : "norm_ram", unit.smooth ? "values of the activation" : "values of the norm",
        unit.norm_memory().width, w.height, groups * w.width, unit.norm_outside);
  if (!w.average)
    add(RoomPlace::Kind::kWinners, "winner_ram", "winners", unit.winner_memory().width, w.out_height, groups * w.out_width,
        unit.winners_outside);
}

}  // namespace

int64_t OutsideFifo::sample_beats() const { return room->beats(rows * row_words, word_bits); }

int64_t OutsideFifo::sample_bytes() const { return rounded_up(sample_beats() * room->beat_bits / 8, kPage); }

double OutsideFifo::bytes_per_sample() const { return room->bytes_per_sample(rows * row_words, word_bits); }

int64_t OutsideFifo::cycles_of(int64_t words) const { return room->cycles(words, word_bits); }

std::vector<OutsideFifo> movable_fifos(const DeviceDesign& design) {
  std::vector<OutsideFifo> fifos;
  for (size_t i = 0; i < design.units(); ++i) add_movable(design, i, fifos);
  return fifos;
}

std::vector<OutsideFifo> outside_fifos(const DeviceDesign& design) {
  std::vector<OutsideFifo> outside;
  if (design.shards.empty()) return outside;
  int64_t end = stream_places(design, design.shards.size() - 1).end;
  for (OutsideFifo& fifo : movable_fifos(design)) {
    if (!fifo.room->is_outside()) continue;
    fifo.place = end;
    end += fifo.room->samples * fifo.sample_bytes();
    outside.push_back(std::move(fifo));
  }
  return outside;
}

WaitsOutside waits_outside(const DeviceDesign& design) {
  WaitsOutside found;
  for (const OutsideFifo& fifo : outside_fifos(design)) {
    found.memories.push_back(fmt::format("{} of {}", fifo.memory, fifo.layer));
    found.bytes_per_sample += fifo.bytes_per_sample();
    found.bytes += fifo.room->samples * fifo.sample_bytes();
  }
  return found;
}

int64_t bytes_reached(const DeviceDesign& design) {
  int64_t end = design.shards.empty() ? 0 : stream_places(design, design.shards.size() - 1).end;
  for (const OutsideFifo& fifo : outside_fifos(design)) end = fifo.place + fifo.room->samples * fifo.sample_bytes();
  return end;
}

bool give_outside_room(DeviceDesign& design, const RoomPlace& place, int64_t samples) {
  ShardDesign& unit = place.owner < design.shards.size() ? design.shards[place.owner] : design.tails[place.owner - design.shards.size()];
  OutsideRoom& room = room_outside(unit, place.kind);
  room = {.samples = samples};
  bool fast = true;
  std::vector<OutsideFifo> of_unit;
  add_movable(design, place.owner, of_unit);
  for (const OutsideFifo& fifo : of_unit) {
    if (fifo.of != place) continue;
    const int64_t words = fifo.rows * fifo.row_words;
    const OutsideRoom needed = outside_room(samples, words, fifo.word_bits, design.period_cycles);
    room.beat_bits = std::max(room.beat_bits, needed.beat_bits);
    fast = fast && needed.keeps_up(words, fifo.word_bits, design.period_cycles);
  }
  return fast;
}

}  // namespace millrace
