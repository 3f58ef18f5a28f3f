#include "core/plan/home_routes.h"

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/flow_load.h"

namespace millrace {

std::string parameter_name(const ParameterHome& home) { return home.layer + "." + home.tensor; }

std::vector<HomeRoute> home_routes(const Plan& plan) {
  std::vector<HomeRoute> routes;
  std::vector<size_t> route_of(plan.homes.size());
  for (size_t h = 0; h < plan.homes.size(); ++h) {
    route_of[h] = routes.size();
    if (plan.homes[h].home != plan.homes[h].user) routes.push_back({.home = h, .parameters = {}, .gradients = {}});
  }
  // Flows come link by link.
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    if (!carries_parameters(flow.stream)) continue;
    MILLRACE_CHECK(flow.home >= 0 && flow.home < static_cast<int64_t>(plan.homes.size()), "flow {} of {} has home {}", f, flow.tensor,
                   flow.home);
    HomeRoute& route = routes[item(route_of, flow.home)];
    (flow.stream == Stream::kParameter ? route.parameters : route.gradients).push_back(static_cast<int64_t>(f));
  }
  for (HomeRoute& route : routes) {
    const ParameterHome& home = plan.homes[route.home];
    for (const std::vector<int64_t>* way : {&route.parameters, &route.gradients})
      MILLRACE_CHECK(static_cast<int64_t>(way->size()) == std::abs(home.home - home.user) || (way->empty() && way == &route.gradients),
                     "{} crosses {} links from device {} to {}", parameter_name(home), way->size(), home.home, home.user);
    std::reverse(home.home < home.user ? route.gradients.begin() : route.parameters.begin(),
                 home.home < home.user ? route.gradients.end() : route.parameters.end());
  }
  return routes;
}

int64_t flow_across(const Plan& plan, std::span<const int64_t> way, int64_t link) {
  MILLRACE_CHECK(!way.empty(), "a way without flows across link {}", link);
  const auto link_of = [&](int64_t flow) { return item(plan.flows, flow).link; };
  const auto place = to_size(std::abs(link - link_of(way.front())));
  MILLRACE_CHECK(place < way.size() && link_of(way[place]) == link, "a way of {} flows from link {} does not cross link {}", way.size(),
                 link_of(way.front()), link);
  return way[place];
}

}  // namespace millrace
