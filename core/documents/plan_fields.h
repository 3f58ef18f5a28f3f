// The fields of the plan document. See fields.h; internal to core/documents.
#pragma once

#include "core/documents/cluster_fields.h"
#include "core/documents/fields.h"
#include "core/documents/model_fields.h"
#include "core/documents/plan.h"

namespace millrace::text {

template <>
struct Fields<OptimizerSettings> {
  static void visit(auto& v) {
    v.field("kind", &OptimizerSettings::kind, Presence::kRecorded);
    v.field("momentum", &OptimizerSettings::momentum, Presence::kRecorded, kFraction);
    v.field("beta1", &OptimizerSettings::beta1, Presence::kRecorded, kFraction);
    v.field("beta2", &OptimizerSettings::beta2, Presence::kRecorded, kFraction);
    v.field("epsilon", &OptimizerSettings::epsilon, Presence::kRecorded, kPositive);
    v.field("weight_decay", &OptimizerSettings::weight_decay, Presence::kRecorded, kNotNegative);
    v.field("average_decay", &OptimizerSettings::average_decay, Presence::kDefaulted, kFraction);
  }
};

template <>
struct Fields<Arithmetic> {
  static void visit(auto& v) {
    v.field("compute", &Arithmetic::compute, Presence::kRecorded);
    v.field("wire", &Arithmetic::wire, Presence::kRecorded);
  }
};

template <>
struct Fields<ChannelRange> {
  static void visit(auto& v) {
    v.field("begin", &ChannelRange::begin, Presence::kRequired, kCount);
    v.field("end", &ChannelRange::end, Presence::kRequired, kCount);
  }
  static void check(const ChannelRange& range, const Path& where);
};

template <>
struct Fields<Link> {
  static void visit(auto& v) {
    v.field("from", &Link::from, Presence::kRequired, kDevice);
    v.field("to", &Link::to, Presence::kRequired, kDevice);
    v.field("forward_bits_per_second", &Link::forward_bits_per_second, Presence::kRequired, kPositiveCount);
    v.field("backward_bits_per_second", &Link::backward_bits_per_second, Presence::kRequired, kPositiveCount);
    v.field("shared_bits_per_second", &Link::shared_bits_per_second, Presence::kDefaulted, kCount);
    v.field("latency_picoseconds", &Link::latency_picoseconds, Presence::kDefaulted, kCount);
  }
};

template <>
struct Fields<Block> {
  static void visit(auto& v) {
    v.field("inputs", &Block::inputs, Presence::kRequired);
    v.field("outputs", &Block::outputs, Presence::kRequired);
  }
  static void check(const Block& block, const Path& where);
};

template <>
struct Fields<PhaseEngine> {
  static void visit(auto& v) {
    v.field("phase", &PhaseEngine::phase, Presence::kRequired);
    v.field("engine", &PhaseEngine::engine, Presence::kRequired, Words::kName);
    v.field("multipliers", &PhaseEngine::multipliers, Presence::kDefaulted, kCount);
    v.field("picoseconds_per_unit", &PhaseEngine::picoseconds_per_unit, Presence::kDefaulted, kCount);
  }
};

template <>
struct Fields<NamedAmount> {
  static void visit(auto& v) {
    v.field("name", &NamedAmount::name, Presence::kRequired, Words::kName);
    v.field("amount", &NamedAmount::amount, Presence::kRequired, kNotNegative);
  }
};

template <>
struct Fields<Shard> {
  static void visit(auto& v) {
    v.field("device", &Shard::device, Presence::kRequired, kDevice);
    v.field("layer", &Shard::layer, Presence::kRequired, Words::kName);
    v.list("blocks", &Shard::blocks);
    v.field("unit", &Shard::unit, Presence::kRecorded);
    v.list("phases", &Shard::phases);
    v.list("resources", &Shard::resources);
    v.list("buffers", &Shard::buffers);
    v.field("act_ram_bits", &Shard::act_ram_bits, Presence::kDefaulted, kCount);
    v.field("update_picoseconds", &Shard::update_picoseconds, Presence::kDefaulted, kCount);
    v.field("units", &Shard::units, Presence::kDefaulted);
    v.field("after", &Shard::after, Presence::kDefaulted);
  }
  static void check(const Shard& shard, const Path& where);
};

template <>
struct Fields<Group> {
  static void visit(auto& v) {
    constexpr Integers kShard{0, static_cast<int64_t>(kMostEntries)};
    v.field("layer", &Group::layer, Presence::kRequired, Words::kName);
    v.field("split", &Group::split, Presence::kRecorded);
    v.list("shards", &Group::shards, kShard);
    v.list("after", &Group::after, Words::kName);
  }
};

template <>
struct Fields<ParameterHome> {
  static void visit(auto& v) {
    v.field("layer", &ParameterHome::layer, Presence::kRequired, Words::kName);
    v.field("tensor", &ParameterHome::tensor, Presence::kRequired, Words::kName);
    v.field("offset", &ParameterHome::offset, Presence::kRequired, kCount);
    v.field("count", &ParameterHome::count, Presence::kRequired, kPositiveCount);
    v.field("home", &ParameterHome::home, Presence::kRequired, kDevice);
    v.field("user", &ParameterHome::user, Presence::kRequired, kDevice);
  }
};

template <>
struct Fields<Flow> {
  static void visit(auto& v) {
    constexpr Integers kShardOrNone{-1, static_cast<int64_t>(kMostEntries)};
    constexpr Integers kHomeOrNone = kShardOrNone;
    v.field("link", &Flow::link, Presence::kRequired, kDevice);
    v.field("direction", &Flow::direction, Presence::kRequired);
    v.field("stream", &Flow::stream, Presence::kRequired);
    v.field("tensor", &Flow::tensor, Presence::kRequired, Words::kGiven);
    v.field("channels", &Flow::channels, Presence::kRequired);
    v.field("producer_shard", &Flow::producer_shard, Presence::kRecorded, kShardOrNone);
    v.field("consumer_shard", &Flow::consumer_shard, Presence::kRecorded, kShardOrNone);
    v.field("home", &Flow::home, Presence::kDefaulted, kHomeOrNone);
    v.field("elements_per_sample", &Flow::elements_per_sample, Presence::kDefaulted, kCount);
    v.field("elements_per_pass", &Flow::elements_per_pass, Presence::kDefaulted, kCount);
    v.field("passes_per_mini_batch", &Flow::passes_per_mini_batch, Presence::kDefaulted, kCount);
    v.field("wire", &Flow::wire, Presence::kRecorded);
  }
};

template <>
struct Fields<DeviceBudget> {
  static void visit(auto& v) {
    v.field("device", &DeviceBudget::device, Presence::kRequired, Words::kName);
    v.list("amounts", &DeviceBudget::amounts);
  }
};

template <>
struct Fields<Constant> {
  static void visit(auto& v) {
    v.field("name", &Constant::name, Presence::kRequired, Words::kGiven);
    v.field("value", &Constant::value, Presence::kRequired, kFinite);
    v.field("origin", &Constant::origin, Presence::kRequired, Words::kGiven);
  }
};

template <>
struct Fields<Plan> {
  static void visit(auto& v) {
    constexpr Integers kBatch{1, kMostBatch};
    v.field("model", &Plan::model, Presence::kRequired);
    v.field("model_digest", &Plan::model_digest, Presence::kDefaulted, Words::kFree);
    v.field("cluster", &Plan::cluster, Presence::kRequired);
    v.field("cluster_digest", &Plan::cluster_digest, Presence::kDefaulted, Words::kFree);
    v.field("strategy", &Plan::strategy, Presence::kRecorded, Words::kName);
    v.field("optimizer", &Plan::optimizer, Presence::kRecorded);
    v.field("arithmetic", &Plan::arithmetic, Presence::kRecorded);
    v.field("alignment", &Plan::alignment, Presence::kRequired);
    v.field("mini_batch", &Plan::mini_batch, Presence::kRequired, kBatch);
    v.field("micro_batch", &Plan::micro_batch, Presence::kRequired, kBatch);
    v.field("time_chunks", &Plan::time_chunks, Presence::kDefaulted, Integers{1, 1 << 20});
    v.field("purpose", &Plan::purpose, Presence::kDefaulted);
    v.field("accounting", &Plan::accounting, Presence::kDefaulted);
    v.list("windows", &Plan::windows, kPositiveCount);
    v.list("links", &Plan::links);
    v.list("shards", &Plan::shards);
    v.list("groups", &Plan::groups);
    v.list("homes", &Plan::homes);
    v.list("flows", &Plan::flows);
    v.field("lower_bound_seconds_per_image", &Plan::lower_bound_seconds_per_image, Presence::kDefaulted, kNotNegative);
    v.field("optimality_gap", &Plan::optimality_gap, Presence::kDefaulted, kNotNegative);
    v.list("budgets", &Plan::budgets);
    v.list("constants", &Plan::constants);
  }
  static void check(const Plan& plan, const Path& where);
};

}  // namespace millrace::text
