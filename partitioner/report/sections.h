// The sections of the report, top to bottom. Internal to partitioner/report.
#pragma once

#include "core/drawing/page.h"
#include "partitioner/report/plan_view.h"

namespace millrace {

void add_key_figures(Page& page, const PlanView& view);
void add_verdict(Page& page, const PlanView& view);
void add_ring(Page& page, const PlanView& view);
void add_resources(Page& page, const PlanView& view);
void add_links(Page& page, const PlanView& view);
void add_homes(Page& page, const PlanView& view);
void add_times(Page& page, const PlanView& view);
void add_segments(Page& page, const PlanView& view);
void add_constants(Page& page, const PlanView& view);
void add_origin(Page& page, const PlanView& view);  // how to make it again

}  // namespace millrace
