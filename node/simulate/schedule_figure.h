// Who works when, of one mini-batch of a simulation: a row for each device, of cards that fill several places for each card. FARNN's Fig 6
// of any plan whose devices take turns.
//
//   if (shows_schedule(plan, result)) page.figure(schedule_figure(plan, result));     // simulated with SimulationOptions::trace
//
// Neighbouring bars of one place and phase are one; the last whole mini-batch is shown. Limits: kMostScheduleRows rows, kMostScheduleBars
// bars.
#pragma once

#include "core/documents/plan.h"
#include "core/drawing/page.h"
#include "node/simulate/simulate.h"

namespace millrace {

inline constexpr int64_t kMostScheduleRows = 24;
inline constexpr size_t kMostScheduleBars = 4000;

// There are few enough rows; a simulation that is to be shown needs a trace then.
bool has_schedule_rows(const Plan& plan);
// Without a whole mini-batch, with too many bars, or of engines side by side: no.
bool shows_schedule(const Plan& plan, const SimulationResult& result);
Figure schedule_figure(const Plan& plan, const SimulationResult& result);

}  // namespace millrace
