// What a sample of a model is called where figures count samples.
//
//   fmt::print("{:.4g} {}/s\n", rate, sample_word(graph).many);
#pragma once

#include <string_view>

#include "core/graph/graph.h"

namespace millrace {

struct SampleWord {
  std::string_view one, many;
};

// Images; utterances, where speech is transcribed; else sequences, of characters, words or frames.
inline SampleWord sample_word(const Graph& graph) {
  bool recurrent = graph.model().input_kind != InputKind::kImage;
  for (const Node& node : graph.nodes()) {
    if (std::holds_alternative<CtcLoss>(node.layer.operation)) return {"utterance", "utterances"};
    recurrent = recurrent || role_of(node.layer.operation) == Role::kRecurrence;
  }
  return recurrent ? SampleWord{"sequence", "sequences"} : SampleWord{"image", "images"};
}

}  // namespace millrace
