#include "core/train/strict_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace millrace {
namespace {

constexpr int kDeepest = 8;

// Refuses repeated names, which the library would silently let the last one win, and deep nesting.
class Watcher {
 public:
  explicit Watcher(std::string_view origin) : origin_(origin) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using ParseEvent = nlohmann::json::parse_event_t;
    if (depth > kDeepest) fail(ErrorCode::kMalformed, "{}: JSON nested deeper than {} levels", origin_, kDeepest);
    switch (event) {
      case ParseEvent::object_start: names_.emplace_back(); break;
      case ParseEvent::object_end: names_.pop_back(); break;
      case ParseEvent::key:
        if (!names_.back().insert(parsed.get<std::string>()).second)
          fail(ErrorCode::kMalformed, "{}: the name {} is given twice", origin_, text_of_json(parsed));
        break;
      default: break;
    }
    return true;
  }

 private:
  std::string_view origin_;
  std::vector<std::set<std::string>> names_;
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::string_view origin) {
  Watcher watcher(origin);
  const nlohmann::json::parser_callback_t watch = [&watcher](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    return watcher(depth, event, parsed);
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& reason) {
    fail(ErrorCode::kMalformed, "{}: not valid JSON: {}", origin, reason.what());
  }
}

std::string text_of_json(const nlohmann::json& value) {
  constexpr size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

JsonFields::JsonFields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) fail(ErrorCode::kMalformed, "{}: is {}, an object was expected", where_, text_of_json(object));
}

bool JsonFields::has(const std::string& name) const { return object_->contains(name); }

const nlohmann::json& JsonFields::value(const std::string& name) {
  const auto found = object_->find(name);
  if (found == object_->end()) fail(ErrorCode::kMalformed, "{}: \"{}\" is missing", where_, name);
  taken_.insert(name);
  return *found;
}

std::string JsonFields::text(const std::string& name) {
  const nlohmann::json& found = value(name);
  if (!found.is_string()) fail(ErrorCode::kMalformed, "{}: \"{}\" is {}, a text was expected", where_, name, text_of_json(found));
  return found.get<std::string>();
}

double JsonFields::number(const std::string& name) {
  const nlohmann::json& found = value(name);
  if (!found.is_number() || !std::isfinite(found.get<double>()))
    fail(ErrorCode::kMalformed, "{}: \"{}\" is {}, a number was expected", where_, name, text_of_json(found));
  return found.get<double>();
}

namespace {

// True when the value is an integer that fits, whichever of its two forms the parser chose for it.
bool as_integer(const nlohmann::json& value, int64_t& integer) {
  if (value.is_number_unsigned()) {
    const uint64_t found = value.get<uint64_t>();
    if (!std::in_range<int64_t>(found)) return false;
    integer = static_cast<int64_t>(found);
    return true;
  }
  if (!value.is_number_integer()) return false;
  integer = value.get<int64_t>();
  return true;
}

}  // namespace

int64_t JsonFields::integer(const std::string& name, int64_t least, int64_t most) {
  const nlohmann::json& found = value(name);
  int64_t integer = 0;
  if (!as_integer(found, integer) || integer < least || integer > most)
    fail(ErrorCode::kMalformed, "{}: \"{}\" is {}, an integer from {} to {} was expected", where_, name, text_of_json(found), least, most);
  return integer;
}

uint64_t JsonFields::unsigned_integer(const std::string& name) {
  const nlohmann::json& found = value(name);
  if (!found.is_number_unsigned())
    fail(ErrorCode::kMalformed, "{}: \"{}\" is {}, an integer from 0 to 2^64-1 was expected", where_, name, text_of_json(found));
  return found.get<uint64_t>();
}

std::vector<int64_t> JsonFields::integers(const std::string& name) {
  const nlohmann::json& found = value(name);
  std::vector<int64_t> integers;
  bool fits = found.is_array();
  if (fits) {
    integers.reserve(found.size());
    for (const nlohmann::json& item : found) {
      int64_t integer = 0;
      fits = fits && as_integer(item, integer) && integer >= 0;
      integers.push_back(integer);
    }
  }
  if (!fits)
    fail(ErrorCode::kMalformed, "{}: \"{}\" is {}, a list of integers from 0 to 2^63-1 was expected", where_, name, text_of_json(found));
  return integers;
}

std::map<std::string, std::string> JsonFields::texts(const std::string& name) {
  JsonFields inner(value(name), where_ + ": \"" + name + "\"");
  std::map<std::string, std::string> texts;
  for (const auto& item : inner.object_->items()) texts.emplace(item.key(), inner.text(item.key()));
  return texts;
}

void JsonFields::no_others() const {
  for (const auto& item : object_->items())
    if (!taken_.contains(item.key()))
      fail(ErrorCode::kMalformed, "{}: {} is not a known name{}", where_, text_of_json(item.key()),
           suggestion(item.key(), {taken_.begin(), taken_.end()}));
}

}  // namespace millrace
