// How commands print: JSON the way --json promises it, and text of any length.
//
//   write_out(json_text({{"models", std::move(models)}}));
//   json["gops"] = number_or_null(gops);
//
// Keys keep the order they are added in. Values only. Internal to deploy/command.
#pragma once

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace millrace {

using Json = nlohmann::ordered_json;

// JSON has neither infinity nor not-a-number.
inline Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

inline std::string json_text(const Json& json) { return json.dump(2) + "\n"; }

inline void write_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace millrace
