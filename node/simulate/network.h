// Internal to node/simulate: a plan taken apart into what happens in virtual time, for a block of neighbouring devices.
//
//   stations   engines (FP, EB, PG of one shard), whole devices that take turns, and joints that take no time: rows that leave,
//              updates. A station walks cycles (samples, micro-batches, passes, mini-batches) of so many units (rows, chunks)
//   streams    what a station makes or a link brings, unit by unit, in order
//   inputs     one station's reading of one stream: how many units must be there before its next unit
//   flows      Plan::flows, message by message, with credits; their lanes are the two directions of a link
//   act rams   the rows of a layer's input that are held between FP and PG
//
// A unit starts when its inputs have started and ends no earlier than they end: rows flow through as pixels do, as in the
// fine-grained pipeline that the plan's formulas assume. Streams of whole samples are different: what reads them waits for
// their end. Times are picoseconds. All counts are absolute: unit 0 is the first of the run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "core/documents/plan.h"
#include "core/graph/row_needs.h"
#include "core/plan/schedule.h"
#include "core/plan/turn.h"

namespace millrace::simulation {

// What a station waits for.
enum class Cause : uint8_t { kInput, kOutput, kParameters, kUpdate, kCore };
inline constexpr size_t kCauses = 5;

enum class StationKind : uint8_t {
  kForward,
  kErrorBack,
  kParameterGradient,
  kTurns,    // a whole device
  kSource,   // the network's input
  kPass,     // parameters that leave their home
  kReturn,   // gradients that leave their user
  kLeaving,  // rows on their way out; no time
  kUpdate,   // of a shard, or of a slice at its home; no time
};

// Walks samples: FP, EB, PG, and rows that leave.
inline bool makes_whole_samples(StationKind kind) { return kind <= StationKind::kParameterGradient || kind == StationKind::kSource; }

inline constexpr int64_t kNoLimit = int64_t{1} << 60;

// Rings of thousands leave the caches: what is looked at together lies in one line, in as few as there may be.
inline constexpr size_t kCacheLine = 64;

struct alignas(kCacheLine) Input {
  int32_t stream = -1;
  int32_t table = -1;     // rows: index into Network::tables
  int32_t schedule = -1;  // or one need per so many cycles: index into Network::schedules
  int32_t per_cycle = 0;  // units of the stream that a cycle walks past
  int32_t divisor = 1;    // cycles per entry of the schedule
  int32_t factor = 1;     // units of the stream per unit of the schedule
  bool whole = false;     // waits for the end of what it needs
  Cause cause = Cause::kInput;
  int64_t base = 0;          // units of the cycles before
  int64_t need = 0;          // before the next unit
  int64_t slack = kNoLimit;  // units that may be there beyond that; no limit: this reader holds nobody back
};

struct alignas(kCacheLine) Station {
  StationKind kind = StationKind::kLeaving;
  bool timed = false;
  bool running = false;
  bool blocked = false;
  bool for_room = false;  // blocked by what takes its output
  Cause cause = Cause::kInput;
  int32_t blocked_stream = -1;
  int32_t device = 0;
  int32_t shard = -1;  // of the plan
  int32_t first_input = 0, inputs = 0;
  int32_t out = -1;      // stream of its units
  int32_t done = -1;     // stream of its cycles, as they end
  int32_t flow = -1;     // its units leave as messages
  int32_t act_ram = -1;  // FP fills it, PG empties it
  int32_t turns = -1;    // index into Network::turns
  int32_t units = 1, unit = 0, finished_unit = 0;
  int32_t longer = 0;  // so many first units of a cycle take a picosecond more
  int64_t cycles = 0, cycle = 0;
  int64_t duration = 0;  // of a unit
  int64_t free_at = 0, since = 0;
  int64_t busy = 0;
  int64_t cycle_start = 0;
  int64_t window_cycle = 0;  // where the steady part begins
  std::array<int64_t, kCauses> waited{};
  int64_t window_start = 0, window_busy = 0, window_end = 0;
  std::array<int64_t, kCauses> window_waited{};
  int64_t multipliers = 0;
  int64_t parameters = 0;  // that an update renews
};

struct alignas(kCacheLine) UnitQueue {
  int64_t started = 0;
  int64_t latest_end = 0;  // of the unit that started last
  int32_t producer = -1;   // station; -1: a flow
  int32_t flow = -1;
  int32_t first_reader = 0, readers = 0;
  int32_t per_sample = 1;
  int64_t peak_waiting = 0;  // units that lay ready before anybody needed them
};

struct Reader {
  int32_t station = 0;
  int32_t input = 0;
};

// One direction of one link.
struct LinkSide {
  int64_t bits_per_second = 1;
  int64_t free_at = 0;    // whole picoseconds
  int64_t free_part = 0;  // and parts: of bits_per_second to the picosecond
};

struct Service {
  int64_t picoseconds = 0;
  int64_t part = 0;
};

template <typename T>
class Queue {  // first in, first out, in one growing ring
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  const T& front() const { return items_[first_]; }
  const T& operator[](size_t i) const { return items_[(first_ + i) & (capacity_ - 1)]; }
  void pop() {
    first_ = (first_ + 1) & (capacity_ - 1);
    --count_;
  }
  void push(const T& item) {
    if (count_ == capacity_) grow();
    items_[(first_ + count_) & (capacity_ - 1)] = item;
    ++count_;
  }
  size_t bytes() const { return capacity_ * sizeof(T); }
  const T* next() const { return items_.get() + first_; }

 private:
  void grow() {
    const uint32_t capacity = capacity_ == 0 ? 4 : 2 * capacity_;
    auto larger = std::make_unique<T[]>(capacity);
    for (size_t i = 0; i < count_; ++i) larger[i] = (*this)[i];
    items_ = std::move(larger);
    capacity_ = capacity;
    first_ = 0;
  }
  std::unique_ptr<T[]> items_;
  uint32_t capacity_ = 0, first_ = 0, count_ = 0;
};

struct InFlight {
  int64_t start = 0;  // of its arrival
  int64_t end = 0;
};
struct Credit {
  int64_t time = 0;
  int64_t allowed = 0;
};

struct alignas(kCacheLine) FlowState {
  int32_t plan_flow = 0;
  bool sender_here = false, receiver_here = false;
  int32_t lane = -1;       // where the sender is here
  int32_t sender = -1;     // station
  int32_t stream = -1;     // where the receiver is here
  int32_t taker = -1;      // a device that takes turns and acts only when there is room for what it will send
  int32_t per_sample = 1;  // messages of a sample or a pass
  int32_t larger = 0;      // so many messages of a sample are larger, by so many bits: the first ones
  int64_t more_bits = 0;
  bool spread = false;      // or, of chunks of time, those that end with a step more,
  bool descending = false;  // which errors pass from the last to the first
  int32_t position = 0;
  int64_t latency = 0;
  int64_t told = 0;       // credit given
  int64_t credit = 0;     // messages that may be sent by now
  int64_t sent = 0;       // messages
  Queue<Credit> credits;  // on their way
  Queue<InFlight> in_flight;
  int64_t turn_free_at = 0;           // when the flow's part of the lane has sent all so far
  int64_t last_arrival = 0;           // the end of the last message's arrival
  std::array<Service, 2> services{};  // of a larger message, and of another
  std::array<int64_t, 2> in_turn{};   // picoseconds of a message with the flow's part of the lane alone
  int64_t bits = 0;                   // of a message that is not larger
};

struct ActRam {
  int32_t device = 0;
  int32_t shard = 0;
  int32_t forward_station = -1;
  int32_t used_table = -1;      // rows of the input that FP needs, by unit
  int32_t released_table = -1;  // rows nobody needs, by unit of PG (of FP where there is no PG)
  int32_t rows = 1;             // of a sample
  int64_t sample_bits = 0;
  bool gradient = false;           // PG lets go of rows, else FP
  int64_t used = 0, released = 0;  // rows, those in work included
  // Of them, rows that FP's unit is filling and PG's is emptying, evenly from start to end.
  int64_t filling = 0, fill_start = 0, fill_end = 0;
  int64_t emptying = 0, empty_start = 0, empty_end = 0;
  double peak_rows = 0;
  int64_t capacity_rows = kNoLimit;
};

// F, or E, of a device that takes turns: of a micro-batch, in one or several chunks of time. What takes sequences whole is done with the
// last chunk of F and the first that E takes.
struct TurnWay {
  std::vector<int32_t> inputs, chunk_inputs;  // as indices into Network::inputs: of the chunk that takes sequences whole, and of others
  std::vector<int32_t> flows, chunk_flows;    // likewise, that its output leaves on: it acts when they have room
  std::vector<int64_t> durations;             // picoseconds of a micro-batch, by chunk as they are taken
  int32_t out = -1;                           // a unit for each chunk
  // Of a device that shares the steps of a recurrent layer: F and E in as many phases as rows of states and one more, as the trainer takes
  // them.
  int64_t shared = 0;                                   // picoseconds of those steps; all else is behind them in F, before them in E
  std::array<std::vector<int32_t>, 2> rows;             // of the others, as inputs, by the place of a row in its step: those made before
  int32_t row = -1;                                     // its own, at the end of each phase
  int32_t early = -1;                                   // what leaves at the beginning, or with a chunk before
  std::vector<int32_t> early_flows, early_chunk_flows;  // that need room then
};

// A device whose shards take turns: the schedule's list, action by action.
struct Turns {
  TurnWay forward, back;
  int64_t chunks = 1;    // of time, of a micro-batch
  int64_t gradient = 0;  // picoseconds of a micro-batch
  int64_t update = 0;    // of a mini-batch
  int32_t rank = -1;     // index into Network::ranks; -1: a core of its own
  int32_t schedule = 0;  // index into Network::plans
  size_t next = 0;
  int32_t gradient_out = -1;
  int64_t in_flight = 0, peak_in_flight = 0;
  int64_t all_reduce = 0;                          // picoseconds of a mini-batch: what replicas need to agree
  int64_t act_bits_held = 0, act_bits_shared = 0;  // of all micro-batches held; shared: among them, once, whatever is in flight
  int64_t held = 1;                                // micro-batches, from F to G
  int64_t rows = 0;                                // of states, of steps that devices share
  int64_t rows_of_step = 1;                        // that projects: two
  int64_t phase = 0;
  bool keeps_card = false;       // from the first chunk of an action to the last: its weights are there once
  std::vector<int64_t> updated;  // the end of each update

  TurnWay& way(bool forwards) { return forwards ? forward : back; }
  const TurnWay& way(bool forwards) const { return forwards ? forward : back; }
};

// What an input of a device that takes turns is for, told by its base until all are there. At once: what takes sequences whole reads it.
inline constexpr int64_t kOfForward = 0, kOfError = -1, kRowOfForward = -2, kRowOfError = -3, kAtOnceOfForward = -4, kAtOnceOfError = -5;
inline constexpr int64_t kSecondRowOfForward = -6, kSecondRowOfError = -7;  // of a step that gives two

// What one window makes of the schedule: shared by all devices that have it.
struct DeviceSchedule {
  ScheduleSpec spec;
  std::vector<Action> actions;
  std::vector<int64_t> forward_version, error_version, gradient_version;  // by micro-batch
  std::vector<int64_t> forward_pass, error_pass;                          // by micro-batch: passes that must have arrived
  std::vector<int64_t> pass_version;
  std::vector<int64_t> pass_mini_batch;                                   // -1: before the first error
  std::vector<int64_t> forwards_before, errors_before, gradients_before;  // by update: micro-batches done before it
};

// Devices that one rank of a trainer acts for, one at a time.
struct SharedRank {
  bool acts = false;
  bool queued = false;                            // able to act, but for a core
  std::vector<std::pair<Turn, int32_t>> wanting;  // stations that could act, in order
  int32_t kept_by = -1;                           // a station that is between two chunks of an action
  // The next that may act; the end: none.
  std::vector<std::pair<Turn, int32_t>>::iterator next() {
    if (kept_by < 0) return wanting.begin();
    return std::ranges::find(wanting, kept_by, &std::pair<Turn, int32_t>::second);
  }
};

struct Network {
  int64_t first_device = 0, end_device = 0;
  int64_t samples = 0;
  bool oldest_first = false;              // of the devices of a rank: core/plan/turn.h
  bool finds_peaks = true;                // of what Act-RAMs and FIFOs hold
  bool messages_per_micro_batch = false;  // a message is a micro-batch of a tensor, not a row of a sample
  std::vector<Station> stations;
  std::vector<Input> inputs;
  std::vector<UnitQueue> streams;
  std::vector<Reader> readers;
  std::vector<LinkSide> lanes;
  std::vector<int32_t> lane_of_link;  // 2 * link, one more for backward; -1: sender elsewhere
  std::vector<FlowState> flows;       // those with an end here, in the plan's order
  std::vector<int32_t> flow_index;    // by the plan's flow; -1: none
  std::vector<ActRam> act_rams;
  std::vector<Turns> turns;
  std::vector<RowTable> tables;
  std::vector<std::vector<int64_t>> schedules;
  std::vector<DeviceSchedule> device_schedules;
  std::vector<SharedRank> ranks;  // empty: every device has a core of its own
  int64_t free_cores = 0;

  int32_t first_of_samples = -1;  // the station whose start begins a sample; -1: elsewhere

  // By the indices that stations, streams, inputs and flows name each other with.
  Station& station(int32_t index) { return fast_item(stations, index); }
  const Station& station(int32_t index) const { return fast_item(stations, index); }
  UnitQueue& stream(int32_t index) { return fast_item(streams, index); }
  const UnitQueue& stream(int32_t index) const { return fast_item(streams, index); }
  Input& input(int32_t index) { return fast_item(inputs, index); }
  const Input& input(int32_t index) const { return fast_item(inputs, index); }
  FlowState& flow(int32_t index) { return fast_item(flows, index); }
  const FlowState& flow(int32_t index) const { return fast_item(flows, index); }
  const Reader& reader_of(const UnitQueue& queue, int32_t number) const { return fast_item(readers, queue.first_reader + number); }
  ActRam& act_ram_of(const Station& s) { return fast_item(act_rams, s.act_ram); }
  const ActRam& act_ram_of(const Station& s) const { return fast_item(act_rams, s.act_ram); }
  Turns& turns_of(const Station& s) { return fast_item(turns, s.turns); }
  const Turns& turns_of(const Station& s) const { return fast_item(turns, s.turns); }
  // Rows: an entry of one of the tables.
  int64_t rows(int32_t table, int32_t unit) const { return fast_item(fast_item(tables, table), unit); }

  // Rows of its input that a station's next unit needs in its Act-RAM, counted from the first of the run; and whether they do not fit.
  int64_t act_rows_needed(const Station& s) const { return s.cycle * act_ram_of(s).rows + rows(act_ram_of(s).used_table, s.unit); }
  bool act_ram_is_full(const Station& s) const;
  // Units that a stream's readers let be there by now; and the reader that holds its maker back most, -1: none.
  int64_t allowed(const UnitQueue& queue) const;
  int32_t slowest_reader(const UnitQueue& queue) const;
  // What a device that takes turns does next, which chunk of it in the order in which they are taken, whether that one takes sequences
  // whole, and what it reads.
  const Action& action_of(const Turns& of) const { return fast_item(device_schedules, of.schedule).actions[of.next]; }
  int64_t chunk_of(const Turns& of) const;
  bool takes_whole(const Turns& of) const;
  const std::vector<int32_t>& inputs_of(const Turns& of) const;

  size_t bytes() const;
};

}  // namespace millrace::simulation
