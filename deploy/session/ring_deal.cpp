#include "deploy/session/ring_deal.h"

#include <optional>
#include <string>

#include "core/base/error.h"
#include "deploy/session/word_meaning.h"

namespace millrace {
namespace {

std::optional<Deal> deal_from(std::string_view word) {
  if (word.empty()) return std::nullopt;
  return meaning_of<std::optional<Deal>>("--deal", std::string(word),
                                         {{"auto", std::nullopt}, {"blocks", Deal::kBlocks}, {"turns", Deal::kTurns}});
}

}  // namespace

void check_deal(std::string_view word) { deal_from(word); }

Deal chosen_deal(std::string_view word, const Plan& plan, const RankPlaces& places) {
  const std::optional<Deal> asked = deal_from(word);
  if (asked == Deal::kTurns && places.ranks == 1)
    fail(ErrorCode::kUsage, "--deal turns has no effect: one rank hosts every device; leave it out, or start more with mpirun");
  if (asked) return *asked;
  const bool several_each = places.ranks > 1 && plan.devices() >= 2 * places.ranks && can_take_turns(plan.devices(), places.ranks);
  const bool pays = drains(plan.alignment) && places.on_processors && places.hosts == 1 && places.replicas == 1;
  return several_each && pays ? Deal::kTurns : Deal::kBlocks;
}

}  // namespace millrace
