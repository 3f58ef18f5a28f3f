// Internal to node/simulate: runs a Network in virtual time.
//
//   Engine engine(network, options);
//   engine.begin();
//   engine.run_until(bound);                 // everything before the bound
//   engine.finish();                         // fails when somebody still waits, naming who
//
// Nothing reaches another device sooner than a link's latency, so for as long each device goes on by itself, one after the other:
// what it needs stays in the cache. Devices joined by a link without latency, or by cores they share, go on together: a crew.
//
// For a block of devices among others: messages and credits that leave the block gather in outbox(); what arrives is given to
// accept() before run_until passes its time. Nothing crosses a block's edge sooner than the link's latency after it began.
// Credits may be late: whoever has one in hand does as well without the next. So a portion's horizon has a time of its own for them,
// which counts only while some station at that edge might run out.
// Borrows the network. Equal networks and equal arrivals give equal results, in whatever portions run_until is called.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "node/simulate/network.h"
#include "node/simulate/simulate.h"
#include "node/simulate/timeline.h"

namespace millrace::simulation {

// What crosses the edge of a block: a message's arrival, or a credit.
struct Crossing {
  int64_t plan_flow = 0;
  int64_t time = 0;    // arrival of the first bit; of the credit
  int64_t amount = 0;  // arrival of the last bit; credit allowed
  bool credit = false;
};

// What crosses comes in two kinds, and a time for each: messages' first.
enum class Crosses : uint8_t { kMessage, kCredit };
using CrossingTimes = std::array<int64_t, 2>;
inline int64_t time_of(const CrossingTimes& times, Crosses what) { return times[static_cast<size_t>(what)]; }

// What a block knows of the time to come: nothing in it happens before `next`, nothing arrives from a side before that side's.
struct Outlook {
  int64_t next = 0;
  CrossingTimes left{}, right{};
  int64_t from(bool left_side, Crosses what) const { return time_of(left_side ? left : right, what); }
};

// How far a block may run: no message arrives before, nor a credit from that side.
struct Horizon {
  int64_t messages = 0;
  int64_t left_credits = 0, right_credits = 0;
};

// The crew of each device of the network, in order from 0.
std::vector<int32_t> crews_of_devices(const Network& network, const Plan& plan);

class Engine {
 public:
  Engine(Network& network, const Plan& plan, const SimulationOptions& options);
  // In these crews, which may be larger: the result is the same.
  Engine(Network& network, const Plan& plan, const SimulationOptions& options, std::vector<int32_t> crew_of_device);

  // What comes next is asked of memory some devices ahead; a ring too large for the caches does so anyway.
  void fetch_ahead() { fetches_ = true; }

  void begin();
  void run_until(int64_t bound);
  // About so many steps. What is sent may be answered: once something is, only what lies before `firm`.
  void run_portion(const Horizon& horizon, const Horizon& firm, int64_t steps);
  // Something happens here before the horizon.
  bool may_run(const Horizon& horizon) { return timeline_.next_time() < limit_of(horizon); }
  // What lies beyond this waits for what may come: credits count where some station at the edge might run out of them.
  int64_t limit_of(const Horizon& horizon);
  int64_t next_time() const { return timeline_.next_time(); }
  void accept(const Crossing& crossing);
  std::vector<Crossing>& outbox() { return outbox_; }
  // Nothing of a kind is sent over this end of the block before then, whatever arrives.
  CrossingTimes quiet_until(bool left, const Outlook& outlook) const;

  // Every station has walked all its cycles.
  bool done() const;
  // Those that wait for one another in a circle, each with what it waits for.
  std::string stuck() const;

  // The last thing happened then.
  int64_t now() const { return latest_; }
  int64_t events() const { return events_; }
  const std::vector<int64_t>& begun() const { return begun_; }
  const std::vector<int64_t>& finished() const { return finished_; }
  std::vector<TraceSpan>& trace() { return trace_; }
  size_t bytes() const;

 private:
  Station& station(int32_t index) { return network_.stations[static_cast<size_t>(index)]; }
  Supply& stream(int32_t index) { return network_.streams[static_cast<size_t>(index)]; }
  Input& input(int32_t index) { return network_.inputs[static_cast<size_t>(index)]; }
  FlowState& flow(int32_t index) { return network_.flows[static_cast<size_t>(index)]; }

  void visit(int32_t index) {
    if (visiting_[static_cast<size_t>(index)]) return;
    visiting_[static_cast<size_t>(index)] = 1;
    pending_.push_back(index);
  }
  struct Due {
    int32_t crew = 0;
    int32_t first = 0;  // what it will attend to first, once it is fetched that far
  };
  template <size_t kStage>
  void fetch(Due& due) const;
  int64_t run_due_with_fetches(int64_t end, const Horizon& horizon);
  int64_t run_together(const Horizon& horizon);
  int64_t run_crew(int32_t crew, int64_t end, const Horizon& horizon);
  void drain();
  void attend(int32_t id);
  void arrive(int32_t flow);
  void end_unit(int32_t index);
  void try_station(int32_t index);

  bool inputs_ready(int32_t index, Station& s, const int32_t* inputs, int32_t count, int64_t& end);
  bool output_ready(int32_t index, Station& s);
  bool credit_ready(int32_t index, Station& s);
  void take_credits(FlowState& state) const;
  bool room_in_act_ram(Station& s, int64_t& end);
  void block(Station& s, Cause cause, int32_t stream, bool for_room);
  void unblock(Station& s);

  void start(int32_t index, Station& s, int64_t end);
  void advance_inputs(Station& s);
  void advance_cycle(Input& read, int64_t cycle, int64_t cycles);
  void after_need(int32_t stream);
  int64_t allowed(const Supply& s) const;
  void put(int32_t stream, int64_t count, int64_t end);
  void send(FlowState& flow, int64_t end);
  void check_in_time(const FlowState& flow, int64_t time) const;
  void tell_credit(FlowState& flow, int64_t time);
  void give_credit(FlowState& flow, int64_t time, int64_t allowed);
  void note_waiting(Supply& s);
  void begin_act_ram(Station& s, int64_t end);
  void end_act_ram(Station& s);
  void offer_act_ram(const ActRam& ram);
  void note_act_ram(ActRam& ram);
  int64_t take_column(int32_t device, int64_t duration);
  void end_cycle(Station& s, int64_t cycle);

  void find_edges();
  int64_t most_sent_at_once(const Station& s) const;
  bool provided(bool left);
  int64_t next_start(int32_t station, const Outlook& outlook, int depth) const;
  int64_t units_missing(const Station& s) const;
  int64_t next_room(const Station& s, const Outlook& outlook, int depth) const;
  int64_t next_arrival(const FlowState& flow, int64_t missing, const Outlook& outlook, int depth) const;
  bool side_of(const FlowState& flow) const;
  bool core_granted(int32_t index, Station& s);
  void queue_rank(int32_t rank);
  bool grant_core();
  void free_core(const Station& s);

  void try_turns(int32_t index, Station& s);
  bool room_for_message(int32_t index, Station& s, const std::vector<int32_t>& flows, int64_t message);
  void start_phase(int32_t index, Station& s, Turns& turns, bool forward);
  const std::vector<int32_t>& inputs_of(const Turns& turns) const;
  void end_action(Station& s);
  const Action& action_of(const Turns& turns) const;
  void begin_window(Station& s);
  std::string name_of_station(const Station& s) const;
  std::string waits_for(const Station& s) const;
  bool full_act_ram(const Station& s) const;
  int32_t slowest_reader(const Supply& supply) const;
  int32_t awaited_by(const Station& s) const;

  Network& network_;
  const Plan& plan_;
  bool tracing_ = false;
  const std::vector<int32_t> crew_of_device_;
  Timeline timeline_;
  int64_t lookahead_ = kNeverTime;  // how long crews may go on by themselves
  bool fetches_ = false;            // what crews need, some turns ahead
  std::vector<Due> due_;
  int64_t now_ = 0;    // for the crew that goes on
  int64_t since_ = 0;  // no crew is behind this time
  int64_t until_ = 0;  // nor beyond this
  int64_t latest_ = 0;
  int64_t events_ = 0;
  std::vector<int32_t> pending_;
  std::vector<uint8_t> visiting_;
  std::vector<int64_t> begun_, finished_;
  const SimulationScenario scenario_;
  std::vector<int64_t> column_free_at_;
  std::vector<Crossing> outbox_;
  std::vector<int32_t> left_edge_, right_edge_;  // flows with one end in the block, by the block's end
  std::vector<int64_t> most_sent_;               // by flow: messages of one step of the clock; 0: unknown
  std::vector<TraceSpan> trace_;
  Queue<int32_t> able_ranks_;  // to act, but for a core
  int32_t granted_ = -1;       // station that starts with the core it has been granted
};

}  // namespace millrace::simulation
