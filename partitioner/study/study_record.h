// One point of a study as JSON: what `millrace study --json` prints under "points", and what a stopped study is resumed from.
//
//   const std::string text = record_of(point);           // numbers to the last digit; null: does not apply
//   const StudyPoint same = point_of_record(text);
//
// Fails with kMalformed on anything else.
#pragma once

#include <string>
#include <string_view>

#include "partitioner/study/study.h"

namespace millrace {

std::string record_of(const StudyPoint& point);
StudyPoint point_of_record(std::string_view text);

}  // namespace millrace
