// Messages between the devices of a plan: a queue for each flow, and the count of what crossed. Internal to core/reference.
//
//   FlowQueues queues(context);
//   queues.send_all(link, Direction::kForward, memory);         // everything that leaves over the link
//   if (queues.ready(link, Direction::kForward)) queues.receive_all(link, Direction::kForward, memory);
//   queues.count_pass(user, Stream::kGradient);                 // parameters stay where they are; they are counted
//
// Borrows the context. Used by the interpreter only.
#pragma once

#include <deque>
#include <vector>

#include "core/plan/schedule.h"
#include "core/reference/interpreter_context.h"

namespace millrace::interpreting {

class FlowQueues {
 public:
  explicit FlowQueues(const Context& context);

  // Of activations and partial sums forward, of their errors backward; links that do not exist carry nothing.
  bool ready(int64_t link, Direction direction) const;
  void send_all(int64_t link, Direction direction, Memory& memory);
  void receive_all(int64_t link, Direction direction, Memory& memory);

  // One pass over the user's parameters (or gradients) that live elsewhere.
  void count_pass(int64_t user, Stream stream);
  // An E and the F after it share one pass when they use the same version; where steps load their parameters no two do.
  void count_parameter_pass(int64_t user, const Action& action);

  // Elements by flow.
  const std::vector<int64_t>& moved() const { return moved_; }
  // Fails with kMismatch when a message was sent and never received.
  // Rows of states, all steps of a micro-batch at once: ":h" or ":delta", ":m" or ":dh" where the layer projects.
  void count_states(int64_t head, std::string_view ending);
  void check_empty() const;

 private:
  struct OpenPass {
    bool open = false;
    int64_t version = 0;
  };

  template <typename Visit>
  void for_each_flow(int64_t link, Direction direction, Visit visit) const;
  Patch& patch_of(const Flow& flow, Memory& memory) const;
  bool loads_alone(int64_t user) const;

  const Context& context_;
  std::vector<std::deque<Values>> queues_;  // by flow
  std::vector<int64_t> moved_;              // by flow
  std::vector<OpenPass> passes_;            // by device
};

}  // namespace millrace::interpreting
