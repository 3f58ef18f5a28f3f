// Text that browsers and XML parsers both read: elements, attributes, everything from outside escaped.
//
//   Markup out;
//   out.open("g", {{"class", "axis"}});
//   out.leaf("text", {{"x", percent_of(0.25)}, {"y", 12}}, layer.name);     // "<" in a name arrives as "&lt;"
//   out.close();
//   page += std::move(out).str();
//
// Attributes with an empty value are left out. Numbers carry at most two decimals and are never "nan" or "inf": those
// become 0, so a caller that may have them decides before what to draw. Owns its text; not thread safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// & < > " ' as entities; control characters and bytes that are not UTF-8 as U+FFFD.
std::string escaped(std::string_view text);
// "12.5", "-3", "0": for coordinates, in as few characters as two decimals need.
std::string coordinate(double value);
// A share of the width as SVG takes it: 0.25 -> "25%", with three decimals.
std::string percent_of(double share);

struct Attribute {
  std::string_view name;
  std::string value;

  Attribute(std::string_view called, std::string text) : name(called), value(std::move(text)) {}
  Attribute(std::string_view called, std::string_view text) : name(called), value(text) {}
  Attribute(std::string_view called, const char* text) : name(called), value(text) {}
  template <std::integral Number>
  Attribute(std::string_view called, Number number) : name(called), value(std::to_string(number)) {}
  Attribute(std::string_view called, double number) : name(called), value(coordinate(number)) {}
};
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  Markup& open(std::string_view element, Attributes attributes = {});
  Markup& close();
  // <element attributes/>, or with a tooltip <element attributes><title>tooltip</title></element>
  Markup& shape(std::string_view element, Attributes attributes, std::string_view tooltip = {});
  // <element attributes>text</element>
  Markup& leaf(std::string_view element, Attributes attributes, std::string_view text);
  Markup& text(std::string_view text);
  // Taken as it is: markup made elsewhere.
  Markup& raw(std::string_view markup);

  const std::string& str() const& { return text_; }
  std::string str() && { return std::move(text_); }

 private:
  void begin(std::string_view element, Attributes attributes);

  std::string text_;
  std::vector<std::string> open_;
};

}  // namespace millrace
