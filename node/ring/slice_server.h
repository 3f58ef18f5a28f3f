// A slice of parameters that this device stores for another one: it sends them out for each of the user's passes, takes the
// gradients of each micro-batch in, and is updated when all of a mini-batch are here. Independent of what its device computes.
//
//   SliceServer server(context, route, device);
//   while (server.step()) {}                       // whatever can be done now
//   server.look(missing);                          // what would let it go on
//
// And the stations in between, which pass on what others send:
//
//   Relay relay{transport, from, to};  relay.step();
//
// Borrow context and device.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/home_routes.h"
#include "core/plan/schedule_cursor.h"
#include "node/ring/home_slice.h"
#include "node/ring/ring_context.h"
#include "node/ring/ring_flows.h"
#include "node/ring/save_records.h"
#include "node/ring/shard_vector.h"

namespace millrace {

// The recurrent weights of steps that devices share, and those of a projection.
bool columns_in_back(const Plan& plan, const Graph& graph, const ParameterHome& home);

class SliceServer final : public Updatable {
 public:
  SliceServer(const RingContext& context, const HomeRoute& route, Device& device);

  HomeSlice& slice() { return slice_; }
  const HomeSlice& slice() const { return slice_; }
  void decide(int64_t mini_batch, const MiniBatchDecision& decision) { user_.decide(mini_batch, decision); }

  void evaluate_only(int64_t micro_batches) { user_.evaluate_only(micro_batches); }

  // One of the slices that hold the rows of such weights between them, this one among them: passes for E give out columns.
  void give_columns_of(const HomeSlice& rows);

  bool step();
  void look(std::vector<Interest>& missing);
  // Nothing is left to send or to take in.
  bool over() { return !find_pass() && user_.over() && slice_.newest() == user_.decided(); }

  int64_t due() override;
  int64_t gradient_elements() const override { return slice_.gradient_elements(); }
  void read_gradients(HostNumbers values) override { slice_.read_gradients(values); }
  void write_gradients(ConstHostNumbers values) override { slice_.write_gradients(values); }
  double squared_gradient_norm() override { return slice_.squared_gradient_norm(); }
  void update(const UpdateArguments& arguments) override;

 private:
  bool find_pass();
  // Its content is here: nothing but room to send it may be lacking.
  bool has_pass();
  bool send_pass();
  bool take_gradient();
  std::vector<double> columns_in_back_of(int64_t version) const;

  RingContext context_;
  HomeSlice slice_;
  Device& device_;
  int64_t parameters_;  // flows
  int64_t gradients_;   // -1: they are made on this device
  ScheduleCursor user_;
  PassCounter passes_;
  std::optional<int64_t> due_version_;  // of the next pass
  struct Rows {
    const HomeSlice* slice;
    ShardVector places;
  };
  std::vector<Rows> rows_;
  bool due_back_ = false;
  bool due_average_ = false;  // it is for an evaluation
  int64_t passes_sent_ = 0;
  int64_t gradients_taken_;
  HostBuffer buffer_;
};

class Relay {
 public:
  Relay(Transport& transport, int64_t from, int64_t to) : transport_(&transport), from_(from), to_(to) {}
  bool step();
  void look(std::vector<Interest>& missing) const;

 private:
  Transport* transport_;
  int64_t from_, to_;
};

}  // namespace millrace
