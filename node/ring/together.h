// Steps that all ranks take together: each may fail on some of them, and then all fail, with what the first one met.
//
//   together(agreement, "opening the devices", [&] { devices = open_all(); });
//
// Bodies must not call the agreement themselves.
#pragma once

#include <functional>
#include <string_view>

#include "core/base/error.h"
#include "transport/streams/agreement.h"

namespace millrace {

// Every rank has it: one of them should say so, and the others be silent.
class SharedError : public Error {
 public:
  using Error::Error;
};

void together(Agreement& agreement, std::string_view what, const std::function<void()>& body);
// Whether it is so on any rank.
bool anywhere(Agreement& agreement, std::string_view what, bool here);

}  // namespace millrace
