// What a word after a flag means, by name: an enumeration's order is nobody's interface.
//
//   const GpuUse use = meaning_of<GpuUse>("--gpus", word, {{"auto", GpuUse::kAuto}, {"off", GpuUse::kOff}});
//
// Fails with kUsage on any other word, suggesting the nearest.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace millrace {

template <typename T>
T meaning_of(std::string_view flag, const std::string& word, std::initializer_list<std::pair<std::string, T>> meanings) {
  std::vector<std::string> words;
  for (const auto& [name, meaning] : meanings) {
    if (name == word) return meaning;
    words.push_back(name);
  }
  fail(ErrorCode::kUsage, "{} \"{}\" is unknown{}", flag, word, suggestion(word, words));
}

}  // namespace millrace
