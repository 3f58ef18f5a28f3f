// How long a step waits for the h of the step before: the one formula of engines that walk a matrix of gates column by column.
//
//   const int64_t waits = step_stall({.hidden = 256, .groups = 1, .units_per_group = 256, .columns = 1, .tail_units = 4, .latency = 25,
//                                     .lead = 0, .hidden_chunks = 256, .streams = 1});      // 25
//
// Rows are cut into `groups`, each of which takes the step's `lead + hidden_chunks` cycles; a cycle does `columns` columns of one
// group. Behind a group's last product the tail makes `tail_units` units a cycle, and the h of a unit is at the multipliers `latency`
// cycles after its turn. The next step needs hidden unit j behind its `lead` chunks of x and j / columns chunks of h. Streams take
// turns, so that a step of one hides behind those of the others.
//   stall = max over group g, unit i of  [ i/U + L - (G-1-g)(lead+Ch) - (lead + (g u + i)/k) ] - (S-1) G (lead+Ch),  at least 0
// Where the units are projected, the features of h leave together behind the last group's last unit u', `projection_latency` P later:
//   stall = max over feature j of  [ u'/U + L + P + j/U - (lead + j/k) ] - (S-1) G (lead+Ch),  at least 0
// Exact where the tail keeps up, ceil(u / U) <= lead + Ch, which tail_keeps_up() says; otherwise the tail itself sets the pace.
#pragma once

#include <cstdint>

namespace millrace {

struct StepWalk {
  int64_t hidden = 0;
  int64_t groups = 1;           // G, of rows
  int64_t units_per_group = 0;  // u, the last group's may be fewer
  int64_t columns = 1;          // k, a cycle
  int64_t tail_units = 1;       // U
  int64_t latency = 0;          // L
  int64_t lead = 0;             // chunks of x in front of the first chunk of h
  int64_t hidden_chunks = 0;    // Ch
  int64_t streams = 1;          // S
  int64_t projection = 0;       // features; 0: the units are the state
  int64_t projection_latency = 0;

  int64_t issue_cycles() const { return groups * (lead + hidden_chunks); }  // of one step of one stream
};

bool tail_keeps_up(const StepWalk& walk);
int64_t step_stall(const StepWalk& walk);

}  // namespace millrace
