#include "partitioner/profile/profile.h"

#include <cmath>

#include "core/base/files.h"
#include "partitioner/profile/linearise.h"
#include "partitioner/profile/profile_text.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/partitioner/profile/profile_helpers.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kHead = "name,fwd_us,bwd_us,out_bytes,param_bytes,act_bytes\n";

void refuses_csv(const std::string& text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text);
  expect_error(ErrorCode::kMalformed, parts, [&] { parse_profile_csv(text, "p.csv"); });
}
void refuses_graph(const std::string& text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text);
  expect_error(ErrorCode::kMalformed, parts, [&] { parse_pipedream_graph(text, "graph.txt"); });
}

TEST(ProfileCsv, ReadsNamesTimesAndBytes) {
  const Profile profile = parse_profile_csv(std::string(kHead) + "a,1,2.5,3,4,5\r\n\n b ,0,1e3,0,0,0\n", "p.csv");
  ASSERT_EQ(profile.size(), 2);
  EXPECT_EQ(profile.nodes[0], (ProfileNode{"a", "", 1e-6, 2.5e-6, 3, 4, 5}));
  EXPECT_EQ(profile.nodes[1].name, "b");
  EXPECT_EQ(profile.nodes[1].backward_seconds, 1e-3);
  EXPECT_TRUE(profile.is_chain());
  EXPECT_DOUBLE_EQ(profile.total_seconds(), 1.0035e-3);
  EXPECT_EQ(profile.origin, "p.csv");
}

TEST(ProfileCsv, ReadsEveryFixture) {
  for (const char* name : {"gnmt.blocks.csv", "gnmt.fine.csv", "resnet18.blocks.csv", "resnet18.fine.csv", "squeezenet1_0.blocks.csv",
                           "squeezenet1_0.fine.csv", "vgg16.fine.csv"}) {
    const Profile profile = load_profile(fixture(name));
    EXPECT_TRUE(profile.is_chain()) << name;
    EXPECT_EQ(csv_of(profile), read_text(fixture(name))) << name;
  }
}

TEST(ProfileCsv, NamesLineFieldAndValueOfWhatIsWrong) {
  const std::string head = kHead;
  refuses_csv("", {"p.csv: this file is empty"});
  refuses_csv("\n \n", {"empty"});
  refuses_csv("name,fwd,bwd\n", {"p.csv:1", "\"name,fwd,bwd\"", "fwd_us"});
  refuses_csv(head, {"no line follows the header"});
  refuses_csv(head + "a,1,2,3,4\n", {"p.csv:2: 5 fields, expected 6"});
  refuses_csv(head + "a,b,1,2,3,4,5\n", {"p.csv:2: 7 fields, expected 6", "comma"});
  refuses_csv(head + ",1,2,3,4,5\n", {"p.csv:2: the name is empty"});
  refuses_csv(head + "a\rb,1,2,3,4,5\n", {"p.csv:2: the name \"a?b\" has a control character in it"});
  refuses_csv(head + "a,1,2,3,4,5\na,1,2,3,4,5\n", {"p.csv:3: the name \"a\" is given twice"});
  refuses_csv(head + "a,x,2,3,4,5\n", {"p.csv:2: fwd_us is \"x\", which is not a number"});
  refuses_csv(head + "a,,2,3,4,5\n", {"fwd_us is \"\", which is not a number"});
  refuses_csv(head + "a,1s,2,3,4,5\n", {"fwd_us is \"1s\""});
  refuses_csv(head + "a,nan,2,3,4,5\n", {"fwd_us is \"nan\", which is not a finite number"});
  refuses_csv(head + "a,1,-inf,3,4,5\n", {"bwd_us is \"-inf\", which is not a finite number"});
  refuses_csv(head + "a,1,1e999,3,4,5\n", {"bwd_us is \"1e999\", which is not a finite number"});
  refuses_csv(head + "a,1,-2,3,4,5\n", {"bwd_us is \"-2\", which is below 0"});
  refuses_csv(head + "a,1e16,2,3,4,5\n", {"fwd_us is \"1e16\", at most 1e+15"});
  refuses_csv(head + "a,1,2,1e300,4,5\n", {"out_bytes is \"1e300\", at most 1e+15"});
  refuses_csv(head + "a,1,2,3,4.5,5\n", {"param_bytes is \"4.5\", which is not a whole number"});
  refuses_csv(head + "a,1,2,3,4,-5\n", {"act_bytes is \"-5\", which is below 0"});
}

TEST(ProfileCsv, NoticesAFileCutAnywhere) {
  const std::string whole = read_text(fixture("vgg16.fine.csv"));
  int read_short = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    try {
      parse_profile_csv(whole.substr(0, size), "p.csv");
      EXPECT_EQ(whole[size - 1], '\n') << size;  // ends where a line does: nothing tells
      ++read_short;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMalformed);
    }
  }
  EXPECT_EQ(read_short, 39);
  refuses_csv(whole.substr(0, whole.size() / 2), {"p.csv:19", "cut short"});
}

TEST(ProfileCsv, HasALimit) {
  std::string text = kHead;
  for (size_t i = 0; i < kMostProfileNodes; ++i) text += fmt::format("n{}", i) + ",1,1,1,1,1\n";
  EXPECT_EQ(parse_profile_csv(text, "p.csv").nodes.size(), kMostProfileNodes);
  refuses_csv(text + "one_more,1,1,1,1,1\n", {"p.csv:10002", "more than 10000 nodes"});
  expect_error(ErrorCode::kMalformed, {"bytes, a profile has at most"},
               [&] { parse_profile_csv(std::string(kMostProfileBytes + 1, ' '), "p.csv"); });
}

TEST(ProfileCsv, WritesWhatItReads) {
  const Profile profile = parse_profile_csv(std::string(kHead) + "a,0.125,23046.5,3,4,999999999999999\nb,0,0,0,0,0\n", "p.csv");
  EXPECT_EQ(parse_profile_csv(csv_of(profile), "p.csv"), profile);
  expect_error(ErrorCode::kUsage, {"branches"}, [] { csv_of(load_profile(fixture("resnet18.graph.txt"))); });
  Profile named = chain_of({1});
  named.nodes[0].name = "a,b";
  expect_error(ErrorCode::kUsage, {"\"a,b\" is no name for a CSV"}, [&] { csv_of(named); });
}

TEST(PipeDreamGraph, ReadsNodesEdgesAndLists) {
  const Profile profile = parse_pipedream_graph(
      "node2 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=2.500, activation_size=[8.0; 4.0; 2], "
      "parameter_size=7.000 -- stage_id=3\n" +
          node_line("node10", "Weird -- name, a=b") + edge_line("node2", "node10"),
      "graph.txt");
  ASSERT_EQ(profile.size(), 2);
  EXPECT_EQ(profile.nodes[0], (ProfileNode{"node2", "Conv2d(3, 64)", 1.5e-3, 2.5e-3, 14, 7, 14}));
  EXPECT_EQ(profile.nodes[1].description, "Weird -- name, a=b");
  EXPECT_THAT(profile.edges, ElementsAre(ProfileEdge{0, 1}));
}

TEST(PipeDreamGraph, LeavesOutInputsAndUnusedResults) {
  const Profile profile = load_profile(fixture("gnmt.graph.txt"));
  EXPECT_THAT(profile.inputs, ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(profile.unused, ElementsAre("node9", "node13", "node18", "node25", "node27", "node33", "node39", "node46"));
  EXPECT_EQ(profile.size(), 37);
  EXPECT_DOUBLE_EQ(load_profile(fixture("vgg16.graph.txt")).input_seconds, 17.972e-3);
  // Only sources are inputs, and a result of an unused result is unused too.
  const Profile odd = parse_pipedream_graph(node_line("node1") + node_line("node2", "InputGate") + node_line("node3", "__getitem__(0)") +
                                                node_line("node4", "__getitem__(1)") + edge_line("node1", "node2") +
                                                edge_line("node2", "node3") + edge_line("node3", "node4"),
                                            "graph.txt");
  EXPECT_EQ(odd.size(), 2);
  EXPECT_THAT(odd.inputs, IsEmpty());
}

TEST(PipeDreamGraph, SaysWhichLineIsNone) {
  refuses_graph("", {"no node"});
  refuses_graph("node1\n", {"graph.txt:1", "\"node1\" is neither a node"});
  refuses_graph("node1 -- Op\n", {"graph.txt:1", "node \"node1\" ends behind \"Op\""});
  refuses_graph("node1 -- Op -- forward_compute_time=1\n", {"graph.txt:1", "ends too early"});
  refuses_graph("node1 -- Op -- backward_compute_time=1, forward_compute_time=1\n", {"forward_compute_time is missing where"});
  refuses_graph(node_line("node1", "Op", "[8.0; 4.0"), {"activation_size is \"[8.0; 4.0\"", "not closed"});
  refuses_graph(node_line("node1", "Op", "[8.0; ]"), {"activation_size is \" \"", "not a number"});
  refuses_graph(node_line("node1", "Op", "[]"), {"activation_size is \"\""});
  refuses_graph(node_line("node1", "Op", "[9e14; 9e14]"), {"in sum at most"});
  refuses_graph(node_line("node1", "Op", "nan"), {"activation_size is \"nan\", which is not a finite number"});
  refuses_graph(node_line("node1", "Op", "1.5"), {"not a whole number"});
  refuses_graph("node1 -- Op -- forward_compute_time=NaN, backward_compute_time=1, activation_size=1, parameter_size=1\n",
                {"graph.txt:1: forward_compute_time is \"NaN\", which is not a finite number"});
  refuses_graph("node1 -- Op -- forward_compute_time=-1, backward_compute_time=1, activation_size=1, parameter_size=1\n",
                {"forward_compute_time is \"-1\", which is below 0"});
  refuses_graph("node1 -- Op -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1, more=1\n",
                {"more than one amount"});
  refuses_graph("node1 -- Op -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1 -- stage_id=x\n",
                {"stage_id is \"x\""});
  refuses_graph("node 1 -- Op -- x\n", {"\"node 1\" is no node's name"});
  refuses_graph(" -- Op -- x\n", {"graph.txt:1"});
  refuses_graph("node\x01 -- Op -- x\n", {"graph.txt:1: the name \"node?\" has a control character"});
  refuses_graph(node_line("node1") + "\tnode1\n", {"graph.txt:2: \"node1\" is no edge"});
  refuses_graph(node_line("node1") + "\tnode1 -- node2 -- node3\n", {"graph.txt:2", "is no edge"});
}

TEST(PipeDreamGraph, SaysWhichPartsDoNotFit) {
  const std::string three = node_line("node1") + node_line("node2") + node_line("node3");
  refuses_graph(three + node_line("node2"), {"graph.txt:4: node \"node2\" is given a second time, the first is on line 2"});
  refuses_graph(three + edge_line("node1", "node4"), {"graph.txt:4", "node1 -- node4", "no line describes"});
  refuses_graph(three + edge_line("node1", "node1"), {"graph.txt:4", "to itself"});
  refuses_graph(three + edge_line("node1", "node2") + edge_line("node1", "node2"), {"graph.txt:5", "second time, the first is on line 4"});
  refuses_graph(three + edge_line("node1", "node2"), {"graph.txt:3: no edges connect node \"node3\" with \"node1\" of line 1"});
  refuses_graph(three, {"graph.txt:2", "there are none", "cut short"});
  refuses_graph(node_line("node1", "Input") + node_line("node2", "Input1"), {"all nodes are inputs"});
}

TEST(PipeDreamGraph, NamesACycleNodeByNode) {
  const std::string nodes = node_line("node1") + node_line("node2") + node_line("node10") + node_line("node3") + node_line("node4");
  refuses_graph(nodes + edge_line("node1", "node2") + edge_line("node2", "node10") + edge_line("node10", "node3") +
                    edge_line("node3", "node2") + edge_line("node3", "node4"),
                {"3 nodes depend on each other in a cycle: node2 -> node10 -> node3 -> node2"});
  std::string ring;
  std::string edges;
  for (int i = 0; i < 200; ++i) {
    ring += node_line(fmt::format("node{}", i));
    edges += edge_line(fmt::format("node{}", i), fmt::format("node{}", (i + 1) % 200));
  }
  refuses_graph(ring + edges, {"200 nodes", "node0 -> node1 -> node2", "node49 -> ... -> node0"});
}

TEST(PipeDreamGraph, MayHaveOneNodeOrInputsThatNobodyReads) {
  EXPECT_EQ(parse_pipedream_graph(node_line("node1"), "graph.txt").size(), 1);
  const Profile profile = parse_pipedream_graph(node_line("node1", "Input0") + node_line("node2"), "graph.txt");
  EXPECT_EQ(profile.size(), 1);
  EXPECT_THAT(profile.inputs, ElementsAre("node1"));
}

TEST(PipeDreamGraph, NoticesAFileCutInHalf) {
  for (const char* name : {"gnmt.graph.txt", "resnet18.graph.txt", "squeezenet1_0.graph.txt", "vgg16.graph.txt"}) {
    const std::string whole = read_text(fixture(name));
    for (const double part : {0.1, 0.25, 0.5, 0.75, 0.9})
      refuses_graph(whole.substr(0, static_cast<size_t>(part * static_cast<double>(whole.size()))), {"graph.txt:"});
  }
}

TEST(LoadProfile, TellsTheFormatFromTheContent) {
  const testing_support::TemporaryFolder folder;
  const auto written = [&](const char* name, const std::string& text) {
    write_atomically(folder.path() / name, text);
    return folder.path() / name;
  };
  EXPECT_EQ(load_profile(written("graph.csv", node_line("node1"))).nodes[0].name, "node1");
  EXPECT_EQ(load_profile(written("chain.txt", std::string(kHead) + "a,1,1,1,1,1\n")).nodes[0].name, "a");
  expect_error(ErrorCode::kMalformed, {"empty.txt: this file is empty"}, [&] { load_profile(written("empty.txt", "")); });
  expect_error(ErrorCode::kMalformed, {"other.txt:1: \"hello?\" starts neither"},
               [&] { load_profile(written("other.txt", "hello\x01\n")); });
  expect_error(ErrorCode::kMalformed, {"other.csv:1", "this is not a profile"}, [&] { load_profile(written("other.csv", "hello\n")); });
  expect_error(ErrorCode::kNotFound, {"nowhere"}, [&] { load_profile(folder.path() / "nowhere.csv"); });
  expect_error(ErrorCode::kMalformed, {"/dev/zero"}, [&] { load_profile("/dev/zero"); });
  EXPECT_THROW(load_profile(folder.path()), Error);
}

TEST(ValidateProfile, HoldsProfilesMadeByHandToTheRules) {
  EXPECT_NO_THROW(validate(chain_of({1, 2})));
  const auto refused = [](const std::vector<std::string>& parts, const auto& change) {
    Profile profile = chain_of({1, 2, 3});
    change(profile);
    expect_error(ErrorCode::kMalformed, parts, [&] { validate(profile); });
  };
  refused({"0 nodes"}, [](Profile& p) { p = Profile{}; });
  refused({"n1", "forward_seconds is nan"}, [](Profile& p) { p.nodes[1].forward_seconds = std::nan(""); });
  refused({"n2", "out_bytes is -1"}, [](Profile& p) { p.nodes[2].out_bytes = -1; });
  refused({"n0", "parameter_bytes is inf"}, [](Profile& p) { p.nodes[0].parameter_bytes = INFINITY; });
  refused({"0 -> 3", "later node"}, [](Profile& p) { p.edges[0].to = 3; });
  refused({"1 -> 0"}, [](Profile& p) { p.edges[0] = {1, 0}; });
  refused({"twice"}, [](Profile& p) { p.edges[1] = p.edges[0]; });
}

TEST(NaturalLess, ComparesDigitsAsNumbers) {
  EXPECT_TRUE(natural_less("node2", "node10"));
  EXPECT_FALSE(natural_less("node10", "node2"));
  EXPECT_TRUE(natural_less("node", "node1"));
  EXPECT_TRUE(natural_less("a99999999999999999999999", "a100000000000000000000000"));
  EXPECT_TRUE(natural_less("a01", "a1") != natural_less("a1", "a01"));
  EXPECT_TRUE(natural_less("conv1_2", "conv2_1"));
  EXPECT_FALSE(natural_less("x", "x"));
}

}  // namespace
}  // namespace millrace
