#include "deploy/command/plan/plan_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/ring_flags.h"
#include "deploy/session/word_meaning.h"

namespace millrace {
namespace {

int64_t integer_of(std::string_view text, std::string_view flag, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    fail(ErrorCode::kUsage, "{} \"{}\": \"{}\" is not a whole number", flag, whole, text);
  return value;
}

// LAYER=DEVICE
void add_pin(const std::string& text, PlanOptions& options) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) fail(ErrorCode::kUsage, "--pin \"{}\": write LAYER=DEVICE, such as conv1=0", text);
  const std::string layer = text.substr(0, equals);
  const int64_t device = integer_of(std::string_view(text).substr(equals + 1), "--pin", text);
  if (!options.pins.emplace(layer, device).second) fail(ErrorCode::kUsage, "--pin \"{}\": the layer is pinned already", text);
}

// LINK=LAYER[:CHANNEL[:OUTPUTS]]
void add_cut(const std::string& text, PlanOptions& options) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size())
    fail(ErrorCode::kUsage, "--cut \"{}\": write LINK=LAYER, LINK=LAYER:CHANNEL or LINK=LAYER:CHANNEL:OUTPUTS, such as 3=conv2_1:40", text);
  const int64_t link = integer_of(std::string_view(text).substr(0, equals), "--cut", text);
  FixedCut cut;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  const size_t first = rest.find(':');
  cut.layer = std::string(rest.substr(0, first));
  if (first != std::string_view::npos) {
    rest = rest.substr(first + 1);
    const size_t second = rest.find(':');
    cut.channel = integer_of(rest.substr(0, second), "--cut", text);
    if (second != std::string_view::npos) cut.outputs = integer_of(rest.substr(second + 1), "--cut", text);
  }
  if (!options.cuts.emplace(link, std::move(cut)).second) fail(ErrorCode::kUsage, "--cut \"{}\": link {} is cut already", text, link);
}

Balance balance_from(const std::string& word) {
  return meaning_of<Balance>("--balance", word, {{"auto", Balance::kAuto}, {"always", Balance::kAlways}, {"never", Balance::kNever}});
}

// The ring with its devices in another order. Links given by hand belong to places, so there all have to be alike.
RingOrder reordered(const PlanTask& task, const std::vector<int64_t>& order, bool from_file, const Catalogue& catalogue,
                    const PlanFlags& flags) {
  RingOrder result;
  std::string shorthand;
  for (size_t i = 0; i < order.size();) {
    const std::string& kind = item(task.cluster.devices, order[i]).device;
    size_t end = i;
    while (end < order.size() && item(task.cluster.devices, order[end]).device == kind) ++end;
    shorthand += fmt::format("{}{}x{}", i == 0 ? "" : "+", kind, end - i);
    i = end;
  }
  result.name = shorthand;
  result.cluster = from_file ? task.cluster : cluster_from(shorthand, catalogue);
  if (!from_file) set_link_gbps(result.cluster, flags.link_gbps, flags.link_gbps_both);
  result.cluster.name = task.cluster.name;
  for (size_t i = 0; i < order.size(); ++i) {
    result.cluster.devices[i] = item(task.cluster.devices, order[i]);
    result.models.push_back(item(task.models, order[i]));
  }
  return result;
}

}  // namespace

void refuse_options_of_other_strategies(const PlanFlags& flags) {
  const Strategy strategy = strategy_from(flags.strategy);
  for (const char* name : {"--laps", "--engine", "--divide", "--mode"})
    if (strategy != Strategy::kKind && flags.is_given(name))
      fail(ErrorCode::kUsage, "{} has no effect without --strategy kind; leave it out, or add that", name);
  if (strategy == Strategy::kKind && flags.is_given("--allow-empty"))
    fail(ErrorCode::kUsage,
         "--allow-empty has no effect with --strategy kind, which leaves boards without work where that is faster; leave it out");
  if (strategy == Strategy::kKind && flags.is_given("--balance"))
    fail(ErrorCode::kUsage,
         "--balance has no effect with --strategy kind, where parameters lie beside the products of their layer; leave it out");
  if (strategy != Strategy::kData && strategy != Strategy::kModel) return;
  for (const char* name : {"--pin", "--cut", "--balance", "--allow-empty", "--fc-barrier", "--fpdeep-lifetimes", "--alignment"})
    if (flags.is_given(name))
      fail(ErrorCode::kUsage, "{} has no effect with --strategy {}, which cuts no ring into segments; leave it out, or plan with hybrid",
           name, name_of(strategy));
}

void refuse_options_of_boards(const PlanFlags& flags, const CostModels& models) {
  if (some_dedicated(models)) return;
  for (const char* name : {"--fc-barrier", "--fpdeep-lifetimes"})
    if (flags.is_given(name))
      fail(ErrorCode::kUsage, "{} has no effect on a ring whose devices all take turns; leave it out, or name a board", name);
}

void refuse_training_options(const PlanFlags& flags) {
  static const std::vector<std::string> of_training = {"--job",       "--alignment",  "--mini-batch", "--micro-batch",      "--time-chunks",
                                                       "--optimizer", "--batch-norm", "--balance",    "--fpdeep-lifetimes", "--recompute"};
  for (const std::string& name : flags.given)
    if (std::find(of_training.begin(), of_training.end(), name) != of_training.end())
      fail(ErrorCode::kUsage, "{} has no effect with --inference, which trains nothing; leave one of the two out", name);
}

void refuse_inference_options(const PlanFlags& flags) {
  for (const char* name : {"--streams", "--steps-per-pass", "--blocks"})
    if (flags.is_given(name)) fail(ErrorCode::kUsage, "{} has no effect without --inference; leave it out", name);
}

void refuse_idle_options(const PlanFlags& flags, std::string_view way, const std::vector<std::string>& read) {
  for (const std::string& name : flags.given)
    if (std::find(read.begin(), read.end(), name) == read.end())
      fail(ErrorCode::kUsage, "{} has no effect {}; leave one of the two out", name, way);
}

int64_t time_chunks_of(const PlanFlags& flags, const Job& job) {
  if (flags.inference) return 1;
  if (flags.time_chunks.empty() && !flags.job_file.empty()) return job.time_chunks;
  return flags.time_chunks.empty() ? 0 : time_chunks_from(flags.time_chunks);
}

bool some_dedicated(const CostModels& models) {
  return std::ranges::any_of(models.of_devices, [](const CostModel* model) { return model->dedicated_engines(); });
}

PlanOptions options_of(const PlanFlags& flags, const Job& job, const CostModels& models) {
  PlanOptions options;
  options.strategy = strategy_from(flags.strategy);
  if (!flags.job_file.empty()) {
    options.alignment = job.alignment;
    options.mini_batch = job.mini_batch;
    options.micro_batch = job.micro_batch;
    options.optimizer = job.optimizer;
    options.recompute = job.recompute;
    options.pins = job.pins;
    options.cuts = job.cuts;
  } else if (some_dedicated(models)) {
    options.optimizer.kind = OptimizerKind::kSgd;  // as FPDeep: no second copy of the parameters on chip
  }
  if (!flags.alignment.empty()) options.alignment = alignment_from(flags.alignment);
  if (!flags.optimizer.empty()) options.optimizer.kind = optimizer_from(flags.optimizer);
  if (flags.mini_batch) options.mini_batch = *flags.mini_batch;
  if (flags.micro_batch) options.micro_batch = *flags.micro_batch;
  if (flags.is_given("--recompute")) options.recompute = flags.recompute;
  options.balance = balance_from(flags.balance);
  divide(options, division_from(flags.divide));
  options.pair_mode = pair_mode_from(flags.mode);
  options.allow_empty = flags.allow_empty;
  options.fc_barrier = flags.fc_barrier;
  options.fpdeep_lifetimes = flags.fpdeep_lifetimes;
  for (const std::string& pin : flags.pins) add_pin(pin, options);
  for (const std::string& cut : flags.cuts) add_cut(cut, options);
  // Other strategies find out where they make a ring of it.
  const bool compared = options.strategy == Strategy::kData || options.strategy == Strategy::kModel;
  if (compared && options.micro_batch > 0 && options.mini_batch % options.micro_batch != 0)
    fail(ErrorCode::kUsage, "mini-batch {} is not a multiple of micro-batch {}; choose sizes that divide", options.mini_batch,
         options.micro_batch);
  return options;
}

Freedom freedom_of(const PlanFlags& flags, const PlanTask& task, const std::string& cluster_name, const Catalogue& catalogue) {
  Freedom freedom = flags.replicas.empty() ? usual_freedom(task) : Freedom{};
  freedom.next_best = flags.explain;
  const bool by_hand = !task.options.pins.empty() || !task.options.cuts.empty();
  if (flags.order != "given" && flags.order != "best")
    fail(ErrorCode::kUsage, "--order \"{}\" is unknown{}", flags.order, suggestion(flags.order, {"given", "best"}));
  if (flags.order == "best") {
    if (by_hand) fail(ErrorCode::kUsage, "--order best moves devices, and pins and cuts name them; leave one of the two out");
    const bool from_file = cluster_name.ends_with(".textproto") || cluster_name.find('/') != std::string::npos;
    const std::vector<LinkEntry>& links = task.cluster.links;
    if (from_file && std::ranges::any_of(links, [&](const LinkEntry& link) { return link != links.front(); }))
      fail(ErrorCode::kUsage, "--order best: the links of {} differ, and belong to places in the ring; leave it out, or make them alike",
           cluster_name);
    for (const std::vector<int64_t>& order : orders_of_kinds(task.cluster))
      freedom.orders.push_back(reordered(task, order, from_file, catalogue, flags));
  }
  if (flags.replicas.empty()) return freedom;
  if (task.options.accounting == Accounting::kFpdeep)
    fail(ErrorCode::kUsage,
         "--replicas needs full accounting: rings side by side agree on every update, which takes time; leave out "
         "--accounting fpdeep");
  if (task.options.strategy != Strategy::kHybrid || by_hand)
    fail(ErrorCode::kUsage, "--replicas goes with hybrid plans without pins and cuts; leave it out");
  const auto devices = static_cast<int64_t>(task.models.size());
  if (flags.replicas == "auto") {
    for (int64_t count = 2; count <= devices; ++count) freedom.replicas.push_back(count);
    return freedom;
  }
  const int64_t count = integer_of(flags.replicas, "--replicas", flags.replicas);
  if (count < 1) fail(ErrorCode::kUsage, "--replicas {}: give a number of rings from 1 on, or auto", count);
  freedom.replicas = {count};
  return freedom;
}

}  // namespace millrace
