// What passes between devices chunk by chunk in time (Plan::time_chunks), and what whole.
//
//   const TimeChunking streams(plan, graph);
//   if (streams.flow(f)) ...                        // a message for each chunk: F3.0, F3.1, ...
//   streams.steps(program)[i]                       // step i runs with every chunk
//
// A step takes a sequence in parts when each time step needs at most the ones before it (recurrent layers of one direction, the products
// with the inputs of one that is divided by kind, embeddings, what goes element by element), all that it reads is there in parts, and
// nobody else reads it at once: errors of a value add up in the order of its readers, and what one reader adds to all steps with the first
// chunk of E would be overwritten, or added to, in another order, by one that comes chunk by chunk. Everything else runs once: with the
// last chunk of F and the first of E; so do steps that several devices share, and both directions of a layer. A record passes as the
// steps are taken that leave it. Both ends of a flow must agree, so this follows from the plan alone.
// Owns its answers. Limits: compiles the segments of all devices when there is more than one chunk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/plan/segment_program.h"

namespace millrace {

class TimeChunking {
 public:
  TimeChunking(const Plan& plan, const Graph& graph);

  // Of an index into Plan::flows.
  bool flow(int64_t index) const { return item(flows_, index); }
  // By step; loads count, for the input is there from the first chunk on.
  std::vector<bool> steps(const SegmentProgram& program) const;
  // Those with a shard there that runs with every chunk.
  std::set<std::string> layers(const SegmentProgram& program) const;
  // Some flow passes chunk by chunk: without one, chunks change nothing.
  bool any() const { return std::ranges::find(flows_, true) != flows_.end(); }

 private:
  std::vector<bool> steps_beside(const SegmentProgram& program, const std::vector<bool>& read_at_once) const;

  const Graph* graph_;
  std::vector<bool> flows_;
};

// By device: layers that run with every chunk.
using ChunkedLayers = std::vector<std::set<std::string>>;
ChunkedLayers chunked_layers(const Plan& plan, const Graph& graph);

// Fails with kUsage where no recurrent layer has so many steps.
void check_time_chunks(int64_t chunks, const Graph& graph);

// Of two chunks something would pass one by one, were every group of layers on a device of its own.
bool may_pass_in_chunks(const Graph& graph);
// As many as every recurrent layer has steps for; 1 where there is none.
int64_t most_time_chunks(const Graph& graph);

}  // namespace millrace
