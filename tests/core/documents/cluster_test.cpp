#include "core/documents/cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/core/documents/expect_error.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

constexpr LinkEntry kDefaultLink{kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs};

void expect_malformed_cluster(const std::string& text, const std::string& words) {
  expect_error(ErrorCode::kMalformed, words, [&] { parse_cluster(text, "lab.textproto"); });
}
void expect_usage(const std::string& shorthand, const std::string& words) {
  expect_error(ErrorCode::kUsage, words, [&] { parse_cluster_shorthand(shorthand); });
}

// "vc709x2" as device, name pairs: "vc709-0 vc709-1".
std::string devices_in(const Cluster& cluster) {
  std::string names;
  for (const DeviceEntry& device : cluster.devices) names += (names.empty() ? "" : " ") + device.device + "=" + device.name;
  return names;
}

TEST(ClusterDocument, ReadsTheLab) {
  const Cluster lab = load_cluster(MILLRACE_SOURCE_DIR "/tests/core/documents/data/lab_cluster.textproto");
  EXPECT_EQ(lab.name, "lab");
  EXPECT_EQ(devices_in(lab), "u280=left u280=right h200=h200-2 h200=h200-3");
  EXPECT_EQ(lab.devices[2].host, "node2");
  ASSERT_EQ(lab.links.size(), 3U);
  EXPECT_EQ(lab.links[0], (LinkEntry{100, 100, 0, 0.8}));
  EXPECT_EQ(lab.links[1], (LinkEntry{25, 25, 40, 2.5}));
  EXPECT_EQ(lab.links[2], (LinkEntry{400, 200, 0, 0.8}));
}

TEST(ClusterDocument, RunsAreOneByOneInShort) {
  const Cluster runs =
      parse_cluster("repeat { count: 2 device: \"vc709\" host: \"a\" } repeat { device: \"cpu\" } default_link { gbps: 10 }", "runs");
  EXPECT_EQ(devices_in(runs), "vc709=vc709-0 vc709=vc709-1 cpu=cpu2");
  EXPECT_EQ(runs.devices[1].host, "a");
  EXPECT_EQ(runs.links, (std::vector<LinkEntry>(2, {10, 10, 0, kDefaultLatencyUs})));
  EXPECT_EQ(text_of(runs),
            "version: 1\n"
            "repeat { count: 2 device: \"vc709\" host: \"a\" }\n"
            "repeat { device: \"cpu\" }\n"
            "default_link { gbps: 10 latency_us: 0.5 }\n");
}

TEST(ClusterDocument, AllLinksMayBeListed) {
  const Cluster cluster = parse_cluster("repeat { count: 3 device: \"cpu\" } links { gbps: 1 } links { forward_gbps: 2 }", "c");
  EXPECT_EQ(cluster.links, (std::vector<LinkEntry>{{1, 1, 0, kDefaultLatencyUs}, {2, kDefaultLinkGbps, 0, kDefaultLatencyUs}}));
}

TEST(ClusterDocument, ErrorsNameFieldAndValue) {
  const std::string two = "repeat { count: 2 device: \"cpu\" } ";
  const std::string four = "repeat { count: 4 device: \"cpu\" } ";
  expect_malformed_cluster("", "lab.textproto: devices: none given");
  expect_malformed_cluster("repeat { count: 0 device: \"cpu\" }", "lab.textproto: repeat[0].count: 0 must be positive");
  expect_malformed_cluster("repeat { count: 1000000000000 device: \"cpu\" }", "repeat[0].count: 1000000000000 must be at most 65536");
  expect_malformed_cluster("repeat { count: 65536 device: \"cpu\" } repeat { device: \"cpu\" }", "repeat[1].count: 1 makes 65537 devices");
  expect_malformed_cluster("repeat { device: \"a b\" }", "repeat[0].device: \"a b\"");
  expect_malformed_cluster("repeat {}", "repeat[0]: device is missing");
  expect_malformed_cluster("devices { device: \"cpu\" } repeat { device: \"cpu\" }", "repeat: 1 runs beside 1 devices");
  expect_malformed_cluster("devices { device: \"cpu\" name: \"a\" } devices { device: \"cpu\" name: \"a\" }",
                           "devices[1].name: \"a\" is already the name of devices[0]");
  expect_malformed_cluster(four + "links { gbps: 1 } links { gbps: 1 } links { forward_gbps: -10 }",
                           "lab.textproto: links[2].forward_gbps: -10 must be positive");
  expect_malformed_cluster(two + "links { gbps: 0 }", "links[0].gbps: 0 must be positive");
  expect_malformed_cluster(two + "links { gbps: inf }", "links[0].gbps: inf must be a finite number");
  expect_malformed_cluster(two + "links { gbps: 1e7 }", "links[0].gbps: 10000000 must be at most 1000000");
  expect_malformed_cluster(two + "links { gbps: 1e-12 }", "links[0].gbps: 1e-12 must be at least 1e-09");
  expect_malformed_cluster(two + "links { latency_us: -1 }", "links[0].latency_us: -1 must not be negative");
  expect_malformed_cluster(two + "default_link { shared_gbps: nan }", "default_link.shared_gbps: nan must be a finite number");
  expect_malformed_cluster(two + "default_link { at: 0 }", "default_link.at: 0 makes no sense here");
  expect_malformed_cluster(four + "links { gbps: 1 }", "links: 1 given; 4 devices have 3");
  expect_malformed_cluster("repeat { device: \"cpu\" } links { gbps: 1 }", "links: 1 given; 1 devices have 0");
  expect_malformed_cluster(four + "links { at: 3 }", "links[0].at: 3 is not where a link starts; 4 devices have links 0 to 2");
  expect_malformed_cluster(four + "links { at: -1 }", "links[0].at: -1 must not be negative");
  expect_malformed_cluster(four + "links { at: 1 } links { at: 1 }", "links[1].at: 1 is given twice");
  expect_malformed_cluster(four + "links { at: 1 } links { gbps: 1 }", "links[1]: `at` must be given in all links or in none");
  expect_malformed_cluster(two + "name: \"a\\nb\"", "name: \"a\\x0ab\" must be readable UTF-8 text");
  expect_malformed_cluster(two + "name: \"\\377\"", "name: \"\\xff\" must be readable UTF-8 text");
}

TEST(ClusterShorthand, CountsDevices) {
  EXPECT_EQ(devices_in(parse_cluster_shorthand("cpu")), "cpu=cpu0");
  EXPECT_EQ(devices_in(parse_cluster_shorthand("u280")), "u280=u280-0");
  EXPECT_EQ(devices_in(parse_cluster_shorthand("vu9px3")), "vu9p=vu9p0 vu9p=vu9p1 vu9p=vu9p2");
  EXPECT_EQ(devices_in(parse_cluster_shorthand("u280x2+h200x1+cpu")), "u280=u280-0 u280=u280-1 h200=h200-2 cpu=cpu3");
  EXPECT_EQ(devices_in(parse_cluster_shorthand("titanx")), "titanx=titanx0");
  EXPECT_EQ(devices_in(parse_cluster_shorthand("titanxx2")), "titanx=titanx0 titanx=titanx1");
  EXPECT_EQ(devices_in(parse_cluster_shorthand("x3")), "x3=x3-0");
  const Cluster boards = parse_cluster_shorthand("vc709x15");
  EXPECT_EQ(boards.name, "vc709x15");
  EXPECT_EQ(boards.devices.size(), 15U);
  EXPECT_EQ(boards.links, std::vector<LinkEntry>(14, kDefaultLink));
  EXPECT_EQ(boards, uniform_cluster("vc709", 15));
}

// Two cards that the ring visits in turn.
TEST(ClusterShorthand, CardsFillSeveralPlaces) {
  const Cluster ring = parse_cluster_shorthand("p100+vu9p~2");
  EXPECT_EQ(ring.name, "p100+vu9p~2");
  EXPECT_EQ(devices_in(ring), "p100=p100-0 vu9p=vu9p1 p100=p100-2 vu9p=vu9p3 p100=p100-4");
  for (size_t i = 0; i < ring.devices.size(); ++i) EXPECT_EQ(ring.devices[i].seat, i % 2 == 0 ? "p100-0" : "vu9p1");
  EXPECT_EQ(parse_cluster(text_of(ring), "ring"), ring);
  EXPECT_EQ(folded(parse_cluster("repeat { count: 2 device: \"cpu\" } links { forward_gbps: 3 backward_gbps: 5 }", "pair"), 1).links,
            (std::vector<LinkEntry>{{3, 5, 0, kDefaultLatencyUs}, {5, 3, 0, kDefaultLatencyUs}}));
  for (const char* wrong : {"p100+vu9p~", "p100+vu9p~0", "p100+vu9p~-1", "p100+vu9p~2x", "p100+vu9p~99999", "~3"})
    expect_usage(wrong, "cluster \"");
  expect_usage("p100~2", "laps are of two cards, and cluster \"p100\" has 1");
  expect_usage("p100+vu9px2~2", "has 3; write them as p100+vu9p~7");
}

TEST(ClusterDocument, PlacesOfASeatAreOneCard) {
  const auto device = [](const char* kind, const char* seat) {
    return fmt::format("devices {{ device: \"{}\" seat: \"{}\" }} ", kind, seat);
  };
  const std::string ring = device("p100", "a") + device("vu9p", "b") + device("p100", "a");
  EXPECT_NO_THROW(parse_cluster(ring, "ring"));
  expect_malformed_cluster(device("p100", "a") + device("vu9p", "b") + device("v100", "a"),
                           "devices[2].seat: \"a\" is a p100 at devices[0], and this is a v100");
  expect_malformed_cluster(device("p100", "a") + device("p100", "a"), "devices[1].seat: \"a\" is that of devices[0], too");
  expect_malformed_cluster(device("p100", "a") + device("vu9p", "b") + "devices { device: \"p100\" host: \"far\" seat: \"a\" }",
                           "and this is a p100 on far");
  expect_malformed_cluster(ring + "links { gbps: 10 } links { gbps: 20 }",
                           "links[1]: it is another than links[0] between the same two seats");
  EXPECT_NO_THROW(
      parse_cluster(ring + "links { forward_gbps: 10 backward_gbps: 20 } links { forward_gbps: 20 backward_gbps: 10 }", "ring"));
}

TEST(ClusterShorthand, RefusesEverythingElse) {
  for (const char* wrong : {"", "+", "cpu+", "+cpu", "cpu x2", "cpu,gpu", "lab.textproto?", "cpux0", "cpux00", "cpux65537",
                            "cpux99999999999999999999", "cpux40000+gpux40000"})
    expect_usage(wrong, fmt::format("cluster \"{}\"", wrong));
}

TEST(UniformCluster, TakesItsLinkAndChecksIt) {
  const LinkEntry link{10, 5, 12, 3};
  EXPECT_EQ(uniform_cluster("cpu", 3, link).links, (std::vector<LinkEntry>{link, link}));
  EXPECT_TRUE(uniform_cluster("cpu", 1).links.empty());
  expect_error(ErrorCode::kUsage, "a cluster of 0 devices", [] { uniform_cluster("cpu", 0); });
  expect_error(ErrorCode::kUsage, "a cluster of -1 devices", [] { uniform_cluster("cpu", -1); });
  expect_error(ErrorCode::kUsage, "links[0].forward_gbps: 0 must be positive", [] { uniform_cluster("cpu", 2, LinkEntry{}); });
  expect_error(ErrorCode::kUsage, "devices[0].device: \"\" must not be empty", [] { uniform_cluster("", 2); });
}

}  // namespace
}  // namespace millrace
