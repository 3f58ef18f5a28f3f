#include "core/drawing/markup.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/check.h"

namespace millrace {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

// The length of the UTF-8 character that starts the text; 0 when none does. Overlong forms, surrogates and what lies
// past U+10FFFF or is forbidden in XML (U+FFFE, U+FFFF, C1 controls) count as none.
size_t character_at(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!continues(text[i])) return 0;
  const unsigned char second = byte(1);
  if ((first == 0xC2 && second < 0xA0) || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  if (first == 0xEF && second == 0xBF && byte(2) >= 0xBE) return 0;
  return length;
}

std::string decimals(double value, int count) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.{}f}", value, count);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = character_at(text.substr(i));
    const char byte = text[i];
    if (length == 0 || (length == 1 && static_cast<unsigned char>(byte) < 0x20 && byte != '\n' && byte != '\t') || byte == '\x7f') {
      out += kReplacement;
      ++i;
      continue;
    }
    if (length > 1) {
      out += text.substr(i, length);
    } else {
      switch (byte) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        default: out += byte;
      }
    }
    i += length;
  }
  return out;
}

std::string coordinate(double value) { return decimals(value, 2); }
std::string percent_of(double share) { return decimals(share * 100, 3) + "%"; }

void Markup::begin(std::string_view element, Attributes attributes) {
  text_ += '<';
  text_ += element;
  for (const Attribute& attribute : attributes) {
    if (attribute.value.empty()) continue;
    text_ += ' ';
    text_ += attribute.name;
    text_ += "=\"";
    text_ += escaped(attribute.value);
    text_ += '"';
  }
}

Markup& Markup::open(std::string_view element, Attributes attributes) {
  begin(element, attributes);
  text_ += '>';
  open_.emplace_back(element);
  return *this;
}

Markup& Markup::close() {
  MILLRACE_CHECK(!open_.empty(), "an element is closed that was never opened");
  text_ += "</";
  text_ += open_.back();
  text_ += '>';
  open_.pop_back();
  return *this;
}

Markup& Markup::shape(std::string_view element, Attributes attributes, std::string_view tooltip) {
  begin(element, attributes);
  if (tooltip.empty()) {
    text_ += "/>";
    return *this;
  }
  text_ += "><title>";
  text_ += escaped(tooltip);
  text_ += "</title></";
  text_ += element;
  text_ += '>';
  return *this;
}

Markup& Markup::leaf(std::string_view element, Attributes attributes, std::string_view text) {
  begin(element, attributes);
  text_ += '>';
  text_ += escaped(text);
  text_ += "</";
  text_ += element;
  text_ += '>';
  return *this;
}

Markup& Markup::text(std::string_view text) {
  text_ += escaped(text);
  return *this;
}

Markup& Markup::raw(std::string_view markup) {
  text_ += markup;
  return *this;
}

}  // namespace millrace
