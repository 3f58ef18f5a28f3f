// The tags of a machine-written XML text, one after the other. Internal to fpga/xrt/xclbin.
//
//   for (const XmlTag& tag : xml_tags(text, "a.xclbin: section EMBEDDED_METADATA"))
//     if (tag.name == "arg" && !tag.closes) fmt::print("{}\n", tag.attribute("name", what));
//
// Text between tags, comments and declarations are passed over; the five named entities are known, others are not.
// Fails with kMalformed, naming `what` and the byte, where a tag does not end or an attribute has no value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::xrt {

struct XmlTag {
  std::string name;
  bool closes = false;  // </name>
  bool empty = false;   // <name/>
  std::vector<std::pair<std::string, std::string>> attributes;

  bool has(std::string_view attribute) const;
  // Fails with kMalformed where it is missing.
  std::string_view attribute(std::string_view attribute, std::string_view what) const;
};

std::vector<XmlTag> xml_tags(std::string_view text, std::string_view what);

}  // namespace millrace::xrt
