// JSON read as strictly as a file format deserves: names given twice, deep nesting, wrong types, numbers out of range
// and unknown names are all errors that say where. Private to core/train. Internal to core/train.
//
//   const nlohmann::json document = parse_strict_json(text, "manifest.json");
//   JsonFields fields(document, "manifest.json");
//   const int64_t step = fields.integer("step");        // fails with kMalformed: `manifest.json: "step" is -3, ...`
//   fields.no_others();                                 // every name was asked for
//
// Only forward declarations of nlohmann/json here; include <nlohmann/json.hpp> in the .cpp that uses this.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Fails with kMalformed naming `origin`. Nesting deeper than eight levels is refused.
nlohmann::json parse_strict_json(std::string_view text, std::string_view origin);

// A value as a message shows it: one line, cut to a readable length.
std::string text_of_json(const nlohmann::json& value);

// The named values of one object, each checked as it is taken. Borrows the object.
class JsonFields {
 public:
  // `where` opens every message: "model.safetensors: tensor \"conv1.weight\"".
  JsonFields(const nlohmann::json& object, std::string where);

  std::string text(const std::string& name);
  double number(const std::string& name);
  int64_t integer(const std::string& name, int64_t least = 0, int64_t most = std::numeric_limits<int64_t>::max());
  uint64_t unsigned_integer(const std::string& name);
  std::vector<int64_t> integers(const std::string& name);  // none negative
  std::map<std::string, std::string> texts(const std::string& name);
  const nlohmann::json& value(const std::string& name);
  bool has(const std::string& name) const;
  // Fails when the object holds a name that was never taken.
  void no_others() const;

  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* object_;
  std::string where_;
  std::set<std::string> taken_;
};

}  // namespace millrace
