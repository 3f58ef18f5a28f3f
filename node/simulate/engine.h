// Internal to node/simulate: runs a Network in virtual time.
//
//   Engine engine(network, options);
//   engine.begin();
//   engine.run_until(bound);                 // everything before the bound
//   engine.finish();                         // fails when somebody still waits, naming who
//
// Nothing reaches another device sooner than a link's latency, so for as long each device goes on by itself, one after the other:
// what it needs stays in the cache. Devices joined by a link without latency, or by cores they share, go on together: a logical process.
//
// For a block of devices among others: messages and credits that leave the block gather in outbox(); what arrives is given to
// accept() before run_until passes its time. Nothing crosses a block's edge sooner than the link's latency after it began.
// Credits may be late: whoever has one in hand does as well without the next. So a portion's horizon has a time of its own for them,
// which counts only while some station at that edge might run out.
// Borrows the network. Equal networks and equal arrivals give equal results, in whatever portions run_until is called.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "node/simulate/block_edges.h"
#include "node/simulate/explain_stuck.h"
#include "node/simulate/logical_processes.h"
#include "node/simulate/network.h"
#include "node/simulate/shared_cores.h"
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

// How far a block may run: no message arrives before, nor a credit from that side.
struct Horizon {
  int64_t messages = 0;
  int64_t left_credits = 0, right_credits = 0;
};

class Engine {
 public:
  Engine(Network& network, const Plan& plan, const SimulationOptions& options);
  // In these processes, which may be larger: the result is the same.
  Engine(Network& network, const Plan& plan, const SimulationOptions& options, std::vector<int32_t> process_of_device);

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
  CrossingTimes quiet_until(bool left, const Outlook& outlook) const { return edges_.quiet_until(left, outlook); }

  // Every station has walked all its cycles.
  bool done() const;
  // Those that wait for one another in a circle, each with what it waits for.
  std::string stuck() const { return explain_stuck(network_, plan_); }

  // The last thing happened then.
  int64_t now() const { return latest_; }
  int64_t events() const { return events_; }
  const std::vector<int64_t>& begun() const { return begun_; }
  const std::vector<int64_t>& finished() const { return finished_; }
  std::vector<TraceSpan>& trace() { return trace_; }
  size_t bytes() const;

 private:
  Station& station(int32_t index) { return network_.station(index); }
  UnitQueue& stream(int32_t index) { return network_.stream(index); }
  Input& input(int32_t index) { return network_.input(index); }
  FlowState& flow(int32_t index) { return network_.flow(index); }

  void visit(int32_t index) {
    if (item(visiting_, index)) return;
    item(visiting_, index) = 1;
    pending_.push_back(index);
  }
  // Of a station.
  void set(int32_t index, int64_t time) {
    if (index == attending_) attending_ = -1;
    timeline_.set(index, time);
  }
  struct Due {
    int32_t process = 0;
    int32_t first = 0;  // what it will attend to first, once it is fetched that far
  };
  template <size_t kStage>
  void fetch(Due& due) const;
  int64_t run_due_with_fetches(int64_t end, const Horizon& horizon);
  int64_t run_together(const Horizon& horizon);
  int64_t run_process(int32_t process, int64_t end, const Horizon& horizon);
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
  void put(int32_t stream, int64_t count, int64_t end);
  void send(FlowState& flow, int64_t end);
  void check_in_time(const FlowState& flow, int64_t time) const;
  void tell_credit(FlowState& flow, int64_t time);
  void give_credit(FlowState& flow, int64_t time, int64_t allowed);
  void note_waiting(UnitQueue& s);
  void offer_act_ram(const ActRam& ram);
  int64_t take_column(int32_t device, int64_t duration);
  void end_cycle(Station& s, int64_t cycle);

  bool provided(bool left);
  bool core_granted(int32_t index, Station& s, int32_t rank, const Action& action);
  bool grant_core();

  void try_turns(int32_t index, Station& s);
  bool room_for_messages(int32_t index, Station& s, const std::vector<int32_t>& flows, int64_t micro_batch, int64_t chunk);
  void advance_action(const Turns& turns, const std::vector<int32_t>& inputs);
  void start_phase(int32_t index, Station& s, Turns& turns, const TurnWay& way, bool forward);
  void end_action(int32_t index, Station& s);
  void begin_window(Station& s);

  Network& network_;
  const Plan& plan_;
  bool tracing_ = false;
  const std::vector<int32_t> process_of_device_;
  Timeline timeline_;
  int64_t lookahead_ = kNeverTime;  // how long processes may go on by themselves
  bool fetches_ = false;            // what processes need, some turns ahead
  std::vector<Due> due_;
  int32_t attending_ = -1;  // station whose time has come, and that has no other
  int64_t now_ = 0;         // for the process that goes on
  int64_t since_ = 0;       // no process is behind this time
  int64_t until_ = 0;       // nor beyond this
  int64_t latest_ = 0;
  int64_t events_ = 0;
  std::vector<int32_t> pending_;
  std::vector<uint8_t> visiting_;
  std::vector<int64_t> begun_, finished_;
  const SimulationScenario scenario_;
  std::vector<int64_t> column_free_at_;
  std::vector<Crossing> outbox_;
  std::vector<TraceSpan> trace_;
  const BlockEdges edges_;
  SharedCores cores_;
  int32_t granted_ = -1;  // station that starts with the core it has been granted
};

}  // namespace millrace::simulation
