// Is this markup one that every XML parser takes? For tests of what draws: "" when it is, else what is wrong and where.
//
//   EXPECT_EQ(well_formed(inline_svg(drawing)), "");
//   EXPECT_EQ(count_of(page, "<rect"), 12);
//
// Knows elements, attributes, text and the five entities; no comments, no CDATA, no processing instructions but the
// first. What it takes is a part of XML, so whatever passes is well formed.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::testing_support {

inline size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

class WellFormed {
 public:
  explicit WellFormed(std::string_view text) : text_(text) {}

  std::string check() {
    if (text_.starts_with("<?xml")) at_ = text_.find("?>") + 2;
    if (text_.starts_with("<!DOCTYPE html>")) at_ = 15;
    size_t roots = 0;
    while (at_ < text_.size()) {
      if (text_[at_] == '<') {
        if (open_.empty() && text_.substr(at_, 2) != "</") ++roots;
        if (!element()) return error_;
      } else if (!characters()) {
        return error_;
      }
    }
    if (!open_.empty()) return "<" + open_.back() + "> is never closed";
    return roots == 1 ? "" : "not one root";
  }

 private:
  bool wrong(const std::string& what) {
    error_ = what + " near: " + std::string(text_.substr(at_ > 40 ? at_ - 40 : 0, 100));
    return false;
  }
  static bool of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':' || c == '_'; }
  std::string name() {
    const size_t first = at_;
    while (at_ < text_.size() && of_name(text_[at_])) ++at_;
    return std::string(text_.substr(first, at_ - first));
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool entity() {
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (!text_.substr(at_).starts_with(known)) continue;
      at_ += known.size();
      return true;
    }
    return wrong("a bare &");
  }
  bool characters() {
    while (at_ < text_.size() && text_[at_] != '<') {
      if (text_[at_] == '&') {
        if (!entity()) return false;
        continue;
      }
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte < 0x20 && byte != '\n' && byte != '\t') return wrong("a control character");
      if (open_.empty() && byte != '\n' && byte != ' ') return wrong("text outside of the root");
      ++at_;
    }
    return true;
  }
  bool element() {
    ++at_;
    if (text_[at_] == '/') {
      ++at_;
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) return wrong("</" + closed + "> closes " + (open_.empty() ? "nothing" : open_.back()));
      open_.pop_back();
      if (text_[at_] != '>') return wrong("an end tag with more than a name");
      ++at_;
      return true;
    }
    const std::string opened = name();
    if (opened.empty()) return wrong("a bare <");
    std::set<std::string> seen;
    for (space(); at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/'; space()) {
      const std::string attribute = name();
      if (attribute.empty() || !seen.insert(attribute).second) return wrong("no attribute, or twice the same");
      if (text_.substr(at_, 2) != "=\"") return wrong("an attribute without a quoted value");
      at_ += 2;
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '<') return wrong("a bare < in an attribute");
        if (text_[at_] == '&') {
          if (!entity()) return false;
        } else {
          ++at_;
        }
      }
      ++at_;
    }
    if (text_.substr(at_, 2) == "/>") {
      at_ += 2;
      return true;
    }
    if (at_ >= text_.size() || text_[at_] != '>') return wrong("an element without an end");
    ++at_;
    open_.push_back(opened);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  std::string error_;
};

inline std::string well_formed(std::string_view text) { return WellFormed(text).check(); }

}  // namespace millrace::testing_support
