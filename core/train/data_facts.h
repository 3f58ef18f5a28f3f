// What a checkpoint remembers of the data it was trained on, so that it can be asked about new samples without that data: names of
// classes, the normalisation, and how pictures become samples.
//
//   content.facts.attributes.merge(facts_of(data.train));              // when a checkpoint is written
//   const DataFacts facts = data_facts(content.facts.attributes);      // when it is asked
//   facts.class_name(3);                                               // "dog", or "3"
//
// Plain values. Everything is optional: checkpoints of other data lack it. Fails with kMalformed on attributes that say something else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/data/dataset.h"
#include "core/data/picture_files.h"

namespace millrace {

struct DataFacts {
  std::vector<std::string> class_names;
  std::optional<Normalisation> normalisation;
  std::optional<PictureForm> pictures;

  std::string class_name(int64_t index) const {
    return static_cast<size_t>(index) < class_names.size() ? item(class_names, index) : std::to_string(index);
  }
};

std::map<std::string, std::string> facts_of(const Dataset& train);
DataFacts data_facts(const std::map<std::string, std::string>& attributes);

}  // namespace millrace
