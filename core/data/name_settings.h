// The settings behind a path in a data set's name: "pictures:/data/flowers,size=3x64x64,threads=4".
//
//   const NameSettings settings("/data/flowers,size=3x64x64", what, {"size", "threads"}, "pictures:FOLDER,size=CxHxW");
//   const Shape shape = settings.shape("size");
//   const int64_t threads = settings.whole("threads", 1, 1, 256);
//
// Internal to core/data. Each known name may come once; everything wrong is kUsage, naming the setting and the form. A path with a comma
// in it cannot be said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/model.h"

namespace millrace {

class NameSettings {
 public:
  NameSettings(std::string_view arguments, std::string_view what, const std::vector<std::string>& known, std::string_view form);
  const std::string& path() const { return path_; }
  // Null when it was not given.
  const std::string* find(const std::string& name) const;
  int64_t whole(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const;
  double number(const std::string& name, double otherwise, double least, double most) const;
  std::string word(const std::string& name, const std::vector<std::string>& words) const;  // the first unless given
  Shape shape(const std::string& name) const;                                              // required

 private:
  [[noreturn]] void refuse(const std::string& name, std::string_view expected) const;
  std::string what_, form_, path_;
  std::map<std::string, std::string> values_;
};

}  // namespace millrace
