// The end of a model brought to as many scores as the data has classes; what adapt.h does for images and sequences alike.
//
//   replace_head(adapted, 10);                      // changes the last dense layer and says so in adapted.notes
//
// Internal to core/graph. Fails with kMismatch when no dense layer makes the scores.
#pragma once

#include "core/graph/adapt.h"

namespace millrace {

void replace_head(AdaptedModel& adapted, int64_t classes);

}  // namespace millrace
