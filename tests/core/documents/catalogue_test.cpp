#include "core/documents/catalogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

void expect_malformed_catalogue(const std::string& text, const std::string& words) {
  expect_error(ErrorCode::kMalformed, words, [&] { parse_catalogue(text, "mine.textproto"); });
}

// A device with these short names (quoted, separated by commas) and values.
std::string device(std::string_view name, std::string_view short_names, std::string_view values = "") {
  return fmt::format("devices {{ name: \"{}\" short_names: [{}] kind: \"fpga\" {} }} ", name, short_names, values);
}
std::string value(std::string_view name, std::string_view number, std::string_view origin = "catalogue") {
  return fmt::format("value {{ name: \"{}\" value: {} unit: \"1\" origin: \"{}\" }} ", name, number, origin);
}

TEST(CatalogueDocument, ReadsADevice) {
  const Catalogue catalogue = parse_catalogue(
      "devices { name: \"XC7VX690T\" short_names: \"vc709\" kind: \"fpga\" summary: \"a board\"\n"
      "  value { name: \"dsp\" value: 3600 unit: \"1\" origin: \"catalogue\" note: \"DS180\" } }",
      "mine");
  const CatalogueDevice expected{"XC7VX690T", {"vc709"}, "fpga", "a board", {{"dsp", 3600, "1", "catalogue", "DS180"}}};
  EXPECT_EQ(catalogue.devices, std::vector<CatalogueDevice>{expected});
  EXPECT_TRUE(parse_catalogue("", "empty").devices.empty());
}

TEST(CatalogueDocument, ErrorsNameFieldAndValue) {
  expect_malformed_catalogue("devices {}", "mine.textproto: devices[0]: name is missing");
  expect_malformed_catalogue("devices { name: \"a\" }", "devices[0]: kind is missing");
  expect_malformed_catalogue("devices { name: \"a\" kind: \"fpga\" }", "devices[0].short_names: none given");
  expect_malformed_catalogue(device("a", "\"a b\""), "devices[0].short_names[0]: \"a b\"");
  expect_malformed_catalogue(device("a", "\"\""), "devices[0].short_names[0]: \"\" must not be empty");
  expect_malformed_catalogue(device("", "\"a\""), "devices[0].name: \"\" must not be empty");
  expect_malformed_catalogue(device("a", "\"a\", \"boardx2\""),
                             "devices[0].short_names[1]: \"boardx2\" would be taken for several \"board\"");
  expect_malformed_catalogue(device("a", "\"a\"") + device("b", "\"b\", \"A\""),
                             "devices[1].short_names[1]: \"A\" is already a short name of devices[0]");
  expect_malformed_catalogue(device("a", "\"a\", \"a\""), "devices[0].short_names[1]: \"a\" is already a short name of devices[0]");
  expect_malformed_catalogue(device("a", "\"a\"", value("dsp", "1") + value("lut", "1") + value("dsp", "2")),
                             "devices[0].value[2].name: \"dsp\" is already given by value[0]");
  expect_malformed_catalogue(device("a", "\"a\"", value("dsp", "nan")), "devices[0].value[0].value: nan must be a finite number");
  expect_malformed_catalogue(device("a", "\"a\"", value("dsp", "-inf")), "devices[0].value[0].value: -inf must be a finite number");
  expect_malformed_catalogue(device("a", "\"a\"", value("dsp", "1", "")), "devices[0].value[0].origin: \"\" must not be empty");
  expect_malformed_catalogue(device("a", "\"a\"", value("dsp", "1", "guessed")),
                             "devices[0].value[0].origin: \"guessed\" is not where a value can come from; it is one of catalogue, paper");
  expect_malformed_catalogue(device("a", "\"a\"", "value { name: \"dsp\" value: 1 origin: \"paper\" }"),
                             "devices[0].value[0]: unit is missing");
  expect_malformed_catalogue(device("a", "\"a\"", "value { name: \"dsp\" value: 1 origin: \"paper\" unit: \"\" }"),
                             "devices[0].value[0].unit: \"\" must not be empty");
  expect_malformed_catalogue(device("a", "\"a\"", "value { name: \"d s\" value: 1 origin: \"paper\" unit: \"1\" }"),
                             "value[0].name: \"d s\"");
  expect_malformed_catalogue("devices { name: \"a\"", "mine.textproto:1:");
  expect_malformed_catalogue("devices { short_name: \"a\" }",
                             "Message type \"CatalogueDevice\" has no field named \"short_name\"; did you mean \"short_names\"?");
}

TEST(CatalogueDocument, ShortNamesMayEndInDigits) {
  for (const std::string name : {"u280", "vu9p", "x3", "h200", "titanx", "3", "x"})
    EXPECT_EQ(parse_catalogue(device("a", fmt::format("\"{}\"", name)), "c").devices[0].short_names, std::vector<std::string>{name});
}

TEST(Catalogue, FindsByShortNameThenByName) {
  const Catalogue catalogue =
      parse_catalogue(device("XC7VX690T", "\"vc709\"") + device("VU9P", "\"vu9p\", \"u200\"") + device("twin", "\"left\"") +
                          device("twin", "\"right\"") + device("odd", "\"twin2\"") + device("left", "\"lefty\""),
                      "c");
  EXPECT_EQ(&catalogue.find("vc709"), &catalogue.devices[0]);
  EXPECT_EQ(&catalogue.find("VC709"), &catalogue.devices[0]);
  EXPECT_EQ(&catalogue.find("xc7vx690t"), &catalogue.devices[0]);
  EXPECT_EQ(&catalogue.find("u200"), &catalogue.devices[1]);
  EXPECT_EQ(&catalogue.find("left"), &catalogue.devices[2]) << "a short name wins over a name";
  expect_error(ErrorCode::kUsage, "\"twin\" is on several boards; say which: left, right", [&] { catalogue.find("twin"); });
  expect_error(ErrorCode::kUsage, "no device \"vc707\" in the catalogue; did you mean \"vc709\"?", [&] { catalogue.find("vc707"); });
  expect_error(ErrorCode::kUsage, "no device \"quantum\" in the catalogue", [&] { catalogue.find("quantum"); });
  expect_error(ErrorCode::kUsage, "no device \"\" in the catalogue", [&] { catalogue.find(""); });
  expect_error(ErrorCode::kUsage, "no device \"vc709\" in the catalogue", [] { Catalogue{}.find("vc709"); });
  EXPECT_EQ(catalogue.short_names(), (std::vector<std::string>{"vc709", "vu9p", "u200", "left", "right", "twin2", "lefty"}));
}

TEST(Catalogue, AMissingValueIsNamed) {
  const Catalogue catalogue = parse_catalogue(device("XC7VX690T", "\"vc709\"", value("dsp", "3600")), "c");
  const CatalogueDevice& board = catalogue.find("vc709");
  EXPECT_TRUE(board.has("dsp"));
  EXPECT_EQ(board.value("dsp"), 3600);
  EXPECT_EQ(board.entry("dsp")->origin, "catalogue");
  EXPECT_FALSE(board.has("dsps"));
  EXPECT_EQ(board.entry("dsps"), nullptr);
  EXPECT_EQ(board.value_or("dsps", 7), 7);
  EXPECT_EQ(board.value_or("dsp", 7), 3600);
  expect_error(ErrorCode::kMalformed,
               "\"vc709\" (XC7VX690T) lacks the value \"dsps\", which a device of kind fpga needs; did you mean \"dsp\"?",
               [&] { board.value("dsps"); });
}

TEST(Catalogue, LaterDevicesTakeShortNamesOver) {
  Catalogue catalogue = parse_catalogue(device("VU9P", "\"vu9p\", \"u200\"") + device("XC7VX690T", "\"vc709\""), "shipped");
  catalogue.merge(parse_catalogue(device("mine", "\"U200\"", value("dsp", "1")) + device("other", "\"Vc709\""), "user's"));
  EXPECT_EQ(catalogue.short_names(), (std::vector<std::string>{"vu9p", "U200", "Vc709"}));
  EXPECT_EQ(catalogue.find("u200").name, "mine");
  EXPECT_EQ(catalogue.find("vu9p").name, "VU9P");
  EXPECT_EQ(catalogue.find("vc709").name, "other");
  EXPECT_EQ(parse_catalogue(text_of(catalogue), "merged"), catalogue);
  Catalogue empty;
  empty.merge(catalogue);
  EXPECT_EQ(empty, catalogue);
}

TEST(Catalogue, FilesThatAreNotThere) {
  expect_error(ErrorCode::kNotFound, "nowhere.textproto", [] { load_catalogue("nowhere.textproto"); });
}

}  // namespace
}  // namespace millrace
