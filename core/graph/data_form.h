// What a network has to know about a data set to be fitted to it: images or sequences, how large, and what the labels are.
//
//   const DataForm text{.kind = InputKind::kTokens, .shape = {1, 100, 1}, .classes = 97, .vocabulary = 97, .labels = LabelForm::kPerStep};
//   const AdaptedModel adapted = adapt(zoo_model("char-rnn"), text);
//
// Plain values.
#pragma once

#include <cstdint>

#include "core/documents/model.h"

namespace millrace {

// The label of a sample that only fills up a micro-batch, of a step that says nothing, and behind the end of a row: the loss
// neither scores it nor gives it an error.
inline constexpr int32_t kNoLabel = -1;

enum class LabelForm {
  kOne,      // one per sample
  kPerStep,  // one per step
  kRow,      // a row without places in time, for the CTC loss; class 0 is the blank
};

struct DataForm {
  InputKind kind = InputKind::kImage;
  Shape shape;             // sequences: {features, steps of the longest, 1}; tokens have one feature, their id
  int64_t classes = 0;     // the blank included
  int64_t vocabulary = 0;  // tokens: ids are below it
  LabelForm labels = LabelForm::kOne;
  bool lengths_differ = false;
};

}  // namespace millrace
