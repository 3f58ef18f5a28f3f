#include "partitioner/report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/drawing/markup.h"
#include "core/drawing/quantity.h"
#include "core/plan/validate.h"
#include "partitioner/report/plan_view.h"
#include "tests/core/drawing/well_formed.h"
#include "tests/partitioner/report/examples/example_plans.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::count_of;
using testing_support::Example;
using testing_support::example_names;
using testing_support::example_of;
using testing_support::well_formed;

std::string page_of(const Example& example) { return plan_report(example.plan, example.graph, example.summary, example.context); }

// Where the page says it, for a message shorter than the page; "" when nowhere.
std::string excerpt(const std::string& page, std::string_view what) {
  const size_t at = page.find(what);
  return at == std::string::npos ? "" : page.substr(at < 60 ? 0 : at - 60, 140);
}

void expect_no_strange_numbers(const std::string& page) {
  for (const char* strange : {">nan", "\"nan", " nan", ">inf", "\"inf", " inf ", "-nan", "nan%", "inf%", ":inf", ":nan"})
    EXPECT_EQ(excerpt(page, strange), "");
}

class EveryExample : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Report, EveryExample, testing::ValuesIn(example_names()), [](const auto& example) { return example.param; });

TEST_P(EveryExample, IsOneWellFormedPageWithNothingToLoad) {
  const std::string page = page_of(example_of(GetParam()));
  EXPECT_EQ(well_formed(page), "");
  for (const char* outside :
       {"<script", " src=\"", " href=\"", "url(", "@import", "http:", "https:", "<link", "<iframe", "<img", " onerror=\"", " onclick="})
    EXPECT_EQ(excerpt(page, outside), "");
  EXPECT_LT(page.size(), 5'000'000u);
}

TEST_P(EveryExample, HoldsNoStrangeNumbers) {
  const std::string page = page_of(example_of(GetParam()));
  expect_no_strange_numbers(page);
}

TEST_P(EveryExample, NamesEveryDeviceLayerAndConstant) {
  const Example example = example_of(GetParam());
  const std::string page = page_of(example);
  std::set<std::string> layers;
  for (const DeviceFigures& device : example.summary.devices) {
    EXPECT_THAT(page,
                HasSubstr(fmt::format("<td class=\"plain\" title=\"{}\">{} {}</td>", device.device, device.index, escaped(device.name))));
    for (const ShardFigures& shard : device.shards) layers.insert(shard.layer);
  }
  for (const std::string& layer : layers) EXPECT_THAT(page, HasSubstr(fmt::format("\"></span>{}</td>", escaped(layer))));
  for (const Constant& constant : example.plan.constants) EXPECT_THAT(page, HasSubstr(fmt::format("<td>{}</td>", escaped(constant.name))));
  for (const LinkFigures& link : example.summary.links) EXPECT_THAT(page, HasSubstr(fmt::format("link {} to {}: ", link.from, link.to)));
  EXPECT_THAT(page, HasSubstr(escaped(example.context.command)));
  for (const std::string& sentence : example.context.explanation) EXPECT_THAT(page, HasSubstr("<li>" + escaped(sentence)));
}

TEST_P(EveryExample, SaysWhereItsFiguresComeFrom) {
  const std::string page = page_of(example_of(GetParam()));
  EXPECT_EQ(count_of(page, "class=\"tile\""), count_of(page, "</span><span class=\"origin\">"));
}

TEST_P(EveryExample, IsTheSameEveryTime) {
  const Example example = example_of(GetParam());
  EXPECT_EQ(page_of(example), page_of(example));
}

TEST_P(EveryExample, DividesTimeAndMemoryWithoutLoss) {
  const Example example = example_of(GetParam());
  const PlanView view(example.plan, example.graph, example.summary, example.context);
  for (size_t d = 0; d < example.summary.devices.size(); ++d) {
    const TimeShares& time = view.time(d);
    EXPECT_NEAR(time.phases[0] + time.phases[1] + time.phases[2] + time.idle, 1, 1e-9);
    double busy = 0;
    for (const double shard : time.shards) busy += shard;
    EXPECT_NEAR(busy + time.idle, 1, 1e-9);
    const DeviceFigures& device = example.summary.devices[d];
    EXPECT_NEAR(view.on_chip(d).used(), device.bram_bits, 1e-6 * device.bram_bits);
    EXPECT_NEAR(view.large_memory(d).used(), device.memory, 1e-6 * device.memory);
  }
}

TEST(Examples, AreCompletePlans) {
  for (const char* name : {"vgg16", "mixed", "crowded", "deep", "alone"}) {
    const Example example = example_of(name);
    EXPECT_NO_THROW(validate(example.plan, example.graph, name)) << name;
  }
}

TEST(Report, ShowsTheFiguresOfTheSummary) {
  const Example example = example_of("vgg16");
  const std::string page = page_of(example);
  const PlanSummary& summary = example.summary;
  EXPECT_THAT(page, HasSubstr(fmt::format("<span class=\"value\">{} <small>images/s</small>", significant(summary.images_per_second))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<span class=\"value\">{} <small>h</small>", significant(summary.hours_per_epoch(1281167)))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<span class=\"value\">{} <small>GOPS</small>", significant(summary.gops_per_device))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<span class=\"value\">device {}</span>", summary.bottleneck.index)));
  EXPECT_THAT(page, HasSubstr("modelled; power: fitted"));
  EXPECT_THAT(page, HasSubstr(fmt::format("Device {} (vc709-{}) sets the pace: {}", summary.bottleneck.index, summary.bottleneck.index,
                                          duration(summary.seconds_per_image))));
}

TEST(Report, MakesSentencesOfWhatItIsTold) {
  Example example = example_of("alone");
  example.context.explanation = {"more boards would help", "Done."};
  const std::string page = page_of(example);
  EXPECT_THAT(page, HasSubstr("<li>More boards would help.</li>"));
  EXPECT_THAT(page, HasSubstr("<li>Done.</li>"));
}

TEST(Report, DrawsWhatIsBuiltBesideWhatIsPlanned) {
  Example example = example_of("vgg16");
  EXPECT_THAT(page_of(example), testing::Not(HasSubstr("As built")));
  example.context.pace_ratio = 0.875;
  example.context.built_text = "pace_ratio 0.875: what rtl generates over the plan";
  for (size_t device = 0; device < example.summary.devices.size(); ++device)
    example.context.built.push_back({.counts = device != 4,
                                     .generated = device != 2 && device != 4,
                                     .fits = device != 3,
                                     .planned_seconds = 7e-3,
                                     .built_seconds = 8e-3});
  const std::string page = page_of(example);
  EXPECT_THAT(page, HasSubstr("<span class=\"value\">0.875</span>"));
  EXPECT_THAT(page, testing::Not(HasSubstr("room of its memories")));
  EXPECT_THAT(page, HasSubstr("As built"));
  EXPECT_THAT(page, HasSubstr("built 8.00 ms per image, planned 7.00 ms"));
  EXPECT_THAT(page, HasSubstr("more than the board has"));
  EXPECT_THAT(page, HasSubstr("Without a column: 1 not generated."));
  EXPECT_THAT(page, testing::ContainsRegex("device 4[^:]*: nothing to generate"));
  example.context.waiting_pace_ratio = 0.25;
  EXPECT_THAT(page_of(example), HasSubstr("with the room of its memories: 0.250"));
}

TEST(Report, DrawsEveryRouteOfTheHomes) {
  const Example example = example_of("vgg16");
  ASSERT_FALSE(example.summary.homes.empty());
  std::set<std::tuple<int64_t, int64_t, std::string>> routes;
  for (const HomeFigures& home : example.summary.homes) routes.insert({home.home, home.user, home.layer});
  const std::string page = page_of(example);
  EXPECT_EQ(count_of(page, "class=\"stroke through\""), routes.size());
  EXPECT_THAT(page, HasSubstr("parameters homed here for others"));
  EXPECT_THAT(page_of(example_of("alone")), Not(HasSubstr("Parameter homes")));
}

TEST(Report, LinksCarryWhatTheFlowsSay) {
  const Example example = example_of("vgg16");
  const std::string page = page_of(example);
  double bits = 0;
  for (const Flow& flow : example.plan.flows)
    if (flow.link == 3 && flow.direction == Direction::kForward && flow.stream == Stream::kPartial)
      bits += static_cast<double>(bits_of(flow.wire)) * static_cast<double>(flow.elements_per_sample);
  ASSERT_GT(bits, 0);
  EXPECT_THAT(page, HasSubstr(fmt::format("link 3 to 4, partial: {}, {} per image",
                                          quantity(bits * example.summary.images_per_second, "b/s"), quantity(bits, "b"))));
}

TEST(Report, HidesResourcesThatNobodyHas) {
  const std::string alone = page_of(example_of("alone")), mixed = page_of(example_of("mixed"));
  for (const char* title : {"DSP slices", "Lookup tables", "Flip-flops", "On-chip memory", "Off-chip memory"})
    EXPECT_THAT(alone, Not(HasSubstr(title)));
  EXPECT_THAT(alone, HasSubstr("Device memory"));
  EXPECT_THAT(mixed, HasSubstr("DSP slices"));
  EXPECT_THAT(mixed, HasSubstr("Device memory"));
  EXPECT_THAT(mixed, HasSubstr("device 6 (h200-6) has none"));
  EXPECT_THAT(alone, Not(HasSubstr("<h2>Links</h2>")));
}

TEST(Report, DrawsResourcesItDoesNotKnow) {
  Example example = example_of("vgg16");
  example.summary.devices[0].shards[0].resources.push_back({"tensor_blocks", 12});
  const std::string page = page_of(example);
  EXPECT_THAT(page, HasSubstr("<h3>tensor_blocks</h3>"));
  EXPECT_THAT(page, HasSubstr("device 0, 12."));
}

// An engine for a shorter period would move more: where the memory sets the pace, it is full and not beyond.
TEST(Report, DrawsTrafficOffChipAtThePlansPace) {
  Example example = example_of("vgg16");
  const double bandwidth = 29e9, bytes = bandwidth * example.summary.seconds_per_image;
  example.plan.budgets[0].amounts.push_back({"dram_bytes_per_second", bandwidth});
  std::vector<NamedAmount>& resources = example.summary.devices[0].shards[0].resources;
  resources.push_back({"dram_bytes_per_second", 1.03 * bandwidth});
  resources.push_back({"off_chip_bytes_per_sample", bytes});
  const std::string page = page_of(example);
  EXPECT_THAT(page, HasSubstr("29.0 GB/s of 29.0 GB/s (100%)"));
  EXPECT_THAT(page, Not(HasSubstr("29.9 GB/s"))) << "in tooltips neither";
}

TEST(Report, GroupsColumnsOfVeryLongRings) {
  const std::string page = page_of(example_of("thousand"));
  EXPECT_THAT(page, HasSubstr("A column stands for 4 neighbours"));
  EXPECT_THAT(page_of(example_of("hundreds")), Not(HasSubstr("A column stands for")));
  const Example example = example_of("thousand");
  const PlanView view(example.plan, example.graph, example.summary, example.context);
  const std::vector<size_t> columns = view.columns(1000, [](size_t i) { return i % 4 == 2 ? 1.0 : 0.0; });
  ASSERT_EQ(columns.size(), 250u);
  for (size_t i = 0; i < columns.size(); ++i) EXPECT_EQ(columns[i], 4 * i + 2);
}

TEST(Report, EscapesWhatPeopleNamed) {
  const std::string page = page_of(example_of("hostile"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;model&#39;)&lt;/script&gt; &amp; &quot;co&quot;"));
  EXPECT_THAT(page, HasSubstr("]]&gt;&lt;/style&gt;&lt;img"));
  EXPECT_THAT(page, HasSubstr("&lt;/li&gt;&lt;script&gt;alert(2)"));
  EXPECT_THAT(page, HasSubstr("&lt;engine &amp; co&gt;"));
  EXPECT_EQ(count_of(page, "</style>"), 1u);
}

TEST(Report, SurvivesFiguresThatAreNoNumbers) {
  for (const double odd : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0, 0.0, 1e308}) {
    Example example = example_of("crowded");
    PlanSummary& summary = example.summary;
    for (double* figure :
         {&summary.seconds_per_image, &summary.images_per_second, &summary.idle_fraction, &summary.gops_per_device, &summary.gops_per_joule,
          &summary.max_link_gbps, &summary.max_link_gbps_both, &summary.lower_bound_images_per_second, &summary.optimality_gap,
          &summary.flop_utilisation, &summary.storage_bits, &summary.communication_bits, &summary.communication_gbps})
      *figure = odd;
    for (DeviceFigures& device : summary.devices) {
      for (double* figure : {&device.dsp, &device.dsp_capacity, &device.lut, &device.bram_bits, &device.bram_capacity_bits,
                             &device.memory_fraction, &device.seconds_per_image, &device.idle_fraction})
        *figure = odd;
      for (ShardFigures& shard : device.shards) {
        shard.macs = shard.parameter_storage = shard.seconds[0] = shard.dsp[1] = odd;
        for (NamedAmount& amount : shard.resources) amount.amount = odd;
      }
    }
    for (LinkFigures& link : summary.links) link.forward_bits_per_image = link.seconds_per_image = link.gbps = odd;
    summary.homes.push_back({"conv2", 0, 10, 0, 1, odd});
    summary.bottleneck = {"link", 99};
    example.context.epoch_images = odd;
    example.context.solve_seconds = odd;
    for (Constant& constant : example.plan.constants) constant.value = odd;
    const std::string page = page_of(example);
    EXPECT_EQ(well_formed(page), "") << odd;
    expect_no_strange_numbers(page);
  }
}

TEST(Report, TellsADeviceWithoutWork) {
  Example example = example_of("vgg16");
  example.summary.devices[4].shards.clear();
  example.summary.devices[4].segment.clear();
  const std::string page = page_of(example);
  EXPECT_EQ(well_formed(page), "");
  EXPECT_THAT(page, HasSubstr("nothing to do"));
}

TEST(Report, IsWrittenWhole) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("millrace-report-{}", getpid());
  const Example example = example_of("alone");
  write_plan_report(folder / "deep" / "er", example.plan, example.graph, example.summary, example.context);
  EXPECT_EQ(read_text(folder / "deep" / "er" / "index.html"), page_of(example));
  write_atomically(folder / "file", "not a folder");
  EXPECT_THROW(write_plan_report(folder / "file", example.plan, example.graph, example.summary, example.context), Error);
  std::filesystem::remove_all(folder);
}

TEST(ReportDeathTest, TakesOnlyTheSummaryOfThatPlan) {
  const Example one = example_of("alone"), other = example_of("vgg16");
  EXPECT_DEATH(plan_report(one.plan, one.graph, other.summary, one.context), "summary of 15 devices for a plan of 1");
}

}  // namespace
}  // namespace millrace
