// The updates of one rank: of its devices' own parameters and of the slices it stores, in the order that all replicas keep.
//
//   UpdateQueue updates(context, ElementType::kFloat32, shares, notes, replicas);
//   updates.add(worker, device);  updates.add(server, devices + route);
//   while (updates.run()) {}                               // whatever is due and may be made now
//
// Between an updatable's last gradient and its update stand the sum over the replicas, one at a time, and the norm over all of the
// ring: norms go to rank 0 as notes, which sends back what to scale gradients by. Borrows all it is given. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "node/ring/note_board.h"
#include "node/ring/ring_context.h"
#include "node/ring/updatable.h"

namespace millrace {

// Adds gradients up over the replicas of a ring: nothing to do for one. A sum is under way at a time; all replicas begin the
// same ones in the same order.
class ReplicaSum {
 public:
  virtual ~ReplicaSum() = default;
  virtual void begin(HostNumbers values, int64_t index) = 0;
  // True when the sum is there.
  virtual bool advance() = 0;
};

class UpdateQueue {
 public:
  // `type`: of the rank's first device, for gradients on their way. `parts`: updatables of the whole ring. `replicas`: null for one.
  UpdateQueue(const RingContext& context, ElementType type, int64_t parts, NoteBoard& notes, ReplicaSum* replicas)
      : context_(context), type_(type), parts_(parts), notes_(notes), replicas_(replicas) {}

  // `number`, among all of the ring, orders the norm's sum.
  void add(Updatable& updatable, int64_t number) { entries_.push_back({.updatable = &updatable, .number = number}); }
  // Learning rate 0: for rehearsals, whose weights are thrown away.
  void rehearse() { rehearsing_ = true; }

  // True when anything was done.
  bool run();
  bool sum_under_way() const { return sum_.has_value(); }

  // Rank 0: a part's squared norm. The norm over all parts, once all are here; it is sent to everybody as a scale.
  std::optional<double> take_norm(int64_t mini_batch, int64_t number, double squared);
  void take_scale(int64_t mini_batch, double scale) { scales_[mini_batch] = scale; }

 private:
  struct Entry {
    Updatable* updatable = nullptr;
    int64_t number = 0;
    int64_t summed = -1;  // mini-batch whose gradients are added up over the replicas
    int64_t normed = -1;  // mini-batch whose norm was sent
  };

  bool run(size_t position);
  bool add_up(Entry& entry, int64_t index);
  UpdateArguments arguments_for(int64_t mini_batch) const;

  RingContext context_;
  ElementType type_;
  int64_t parts_;
  NoteBoard& notes_;
  ReplicaSum* replicas_;
  std::vector<Entry> entries_;
  size_t summing_ = 0;              // replicas: whose turn it is
  std::optional<HostNumbers> sum_;  // that is under way, in the buffer
  HostBuffer buffer_;
  std::map<int64_t, double> scales_;                    // by mini-batch: from clipping by the global norm
  std::map<int64_t, std::map<int64_t, double>> norms_;  // rank 0: by mini-batch and number
  bool rehearsing_ = false;
};

}  // namespace millrace
