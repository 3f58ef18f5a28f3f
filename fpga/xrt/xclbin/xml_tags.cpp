#include "fpga/xrt/xclbin/xml_tags.h"

#include <algorithm>

#include "core/base/error.h"

namespace millrace::xrt {

namespace {

constexpr size_t kMostTags = 100'000;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == ':' || c == '.';
}

class Scanner {
 public:
  Scanner(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  std::vector<XmlTag> tags() {
    std::vector<XmlTag> found;
    while ((at_ = text_.find('<', at_)) != std::string_view::npos) {
      if (skipped("<!--", "-->") || skipped("<?", "?>") || skipped("<![CDATA[", "]]>") || skipped("<!", ">")) continue;
      if (found.size() == kMostTags) broken("more tags than any design has");
      found.push_back(tag());
    }
    return found;
  }

 private:
  [[noreturn]] void broken(std::string_view why) const { fail(ErrorCode::kMalformed, "{}: byte {} of the XML: {}", what_, at_, why); }

  bool skipped(std::string_view begin, std::string_view end) {
    if (!text_.substr(at_).starts_with(begin)) return false;
    const size_t stop = text_.find(end, at_ + begin.size());
    if (stop == std::string_view::npos) broken("what begins here does not end");
    at_ = stop + end.size();
    return true;
  }
  char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void pass_spaces() {
    while (is_space(here())) ++at_;
  }
  std::string name() {
    const size_t begin = at_;
    while (is_name(here())) ++at_;
    if (at_ == begin) broken("a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }
  void expect(char c) {
    if (here() != c) broken(std::string("\"") + c + "\" is missing");
    ++at_;
  }
  std::string value() {
    const char quote = here();
    if (quote != '"' && quote != '\'') broken("a value in quotes is missing");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) broken("a value does not end");
    const std::string_view raw = text_.substr(at_ + 1, end - at_ - 1);
    std::string plain;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '&') {
        plain += raw[i];
        continue;
      }
      static constexpr std::pair<std::string_view, char> kEntities[] = {
          {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
      const auto known = std::ranges::find_if(kEntities, [&](const auto& entity) { return raw.substr(i).starts_with(entity.first); });
      if (known == std::end(kEntities)) broken("an entity that is not known");
      plain += known->second;
      i += known->first.size() - 1;
    }
    at_ = end + 1;
    return plain;
  }
  XmlTag tag() {
    XmlTag tag;
    expect('<');
    if (here() == '/') {
      tag.closes = true;
      ++at_;
    }
    tag.name = name();
    for (pass_spaces(); is_name(here()); pass_spaces()) {
      std::string key = name();
      pass_spaces();
      expect('=');
      pass_spaces();
      tag.attributes.emplace_back(std::move(key), value());
    }
    if (here() == '/') {
      tag.empty = true;
      ++at_;
    }
    expect('>');
    return tag;
  }

  std::string_view text_;
  std::string_view what_;
  size_t at_ = 0;
};

}  // namespace

bool XmlTag::has(std::string_view attribute) const {
  return std::ranges::any_of(attributes, [&](const auto& entry) { return entry.first == attribute; });
}

std::string_view XmlTag::attribute(std::string_view wanted, std::string_view what) const {
  for (const auto& [key, text] : attributes)
    if (key == wanted) return text;
  fail(ErrorCode::kMalformed, "{}: <{}> has no {}", what, name, wanted);
}

std::vector<XmlTag> xml_tags(std::string_view text, std::string_view what) { return Scanner(text, what).tags(); }

}  // namespace millrace::xrt
