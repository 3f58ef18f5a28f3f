// The words of flags and reports, and that documents use the same ones.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/documents/job.h"
#include "core/documents/plan.h"
#include "job.pb.h"
#include "plan.pb.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

// "zero-bubble" -> "ZERO_BUBBLE"; an identifier cannot start with a digit, which concerns one word.
std::string as_enumerator(std::string_view word) {
  if (word == "1f1b") return "ONE_F_ONE_B";
  std::string name(word);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return name;
}

std::vector<std::string> names_in(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    EXPECT_EQ(type.value(i)->number(), i) << type.full_name();
    names.push_back(type.value(i)->name());
  }
  return names;
}

template <typename Enumeration>
void same_words(const google::protobuf::EnumDescriptor& type) {
  const std::vector<std::string> names = names_in(type);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], as_enumerator(name_of(static_cast<Enumeration>(i)))) << type.full_name();
  EXPECT_EQ(name_of(static_cast<Enumeration>(names.size())), name_of(static_cast<Enumeration>(1000)))
      << type.full_name() << " lacks a value";
}

TEST(Vocabulary, DocumentsUseTheWordsOfTheCode) {
  same_words<Alignment>(*documents::Alignment_descriptor());
  same_words<ElementType>(*documents::ElementType_descriptor());
  same_words<OptimizerKind>(*documents::OptimizerSettings::Kind_descriptor());
  same_words<Phase>(*documents::PhaseEngine::Phase_descriptor());
  same_words<Stream>(*documents::Flow::Stream_descriptor());
  same_words<StreamingUnit>(*documents::Shard::Unit_descriptor());
  same_words<Split>(*documents::Group::Split_descriptor());
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_in(*documents::Flow::Direction_descriptor()), (Names{"FORWARD", "BACKWARD"}));
  EXPECT_EQ(names_in(*documents::LearningRate::Kind_descriptor()), (Names{"CONSTANT", "STEP", "COSINE", "POLYNOMIAL"}));
  EXPECT_EQ(names_in(*documents::Job::Clip_descriptor()), (Names{"NONE", "VALUE", "GLOBAL_NORM"}));
  EXPECT_EQ(names_in(*documents::EarlyStop::Metric_descriptor()), (Names{"NONE", "LOSS", "ACCURACY"}));
  EXPECT_EQ(names_in(*documents::Model::InputKind_descriptor()), (Names{"IMAGE", "TOKENS", "FEATURES"}));
  EXPECT_EQ(names_in(*documents::Layer::Initializer_descriptor()),
            (Names{"HE_NORMAL", "HE_UNIFORM", "XAVIER_NORMAL", "XAVIER_UNIFORM", "TORCH_UNIFORM", "ZERO"}));
}

TEST(Vocabulary, NamesAreFoundAgain) {
  for (const char* name : {"fpdeep", "flush", "1f1b", "stash", "zero-bubble"}) EXPECT_EQ(name_of(alignment_from(name)), name);
  for (const char* name : {"sgd", "momentum", "nesterov", "adam", "adamw"}) EXPECT_EQ(name_of(optimizer_from(name)), name);
  for (const char* name : {"float64", "float32", "float16", "bfloat16", "fixed16"}) EXPECT_EQ(name_of(element_type_from(name)), name);
  expect_error(ErrorCode::kUsage, "alignment \"flsh\" does not exist; did you mean \"flush\"?", [] { alignment_from("flsh"); });
  expect_error(ErrorCode::kUsage, "optimizer \"lbfgs\" does not exist; known: sgd, momentum, nesterov, adam, adamw",
               [] { optimizer_from("lbfgs"); });
  expect_error(ErrorCode::kMalformed, "element type \"\" does not exist", [] { element_type_from(""); });
}

TEST(Vocabulary, WhatTheWordsImply) {
  EXPECT_FALSE(drains(Alignment::kFpdeep));
  EXPECT_FALSE(drains(Alignment::kStash));
  EXPECT_TRUE(drains(Alignment::kFlush));
  EXPECT_TRUE(drains(Alignment::kOneForwardOneBackward));
  EXPECT_TRUE(drains(Alignment::kZeroBubble));
  EXPECT_EQ((OptimizerSettings{.kind = OptimizerKind::kSgd}.slots()), 0);
  EXPECT_EQ((OptimizerSettings{.kind = OptimizerKind::kNesterov}.slots()), 1);
  EXPECT_EQ((OptimizerSettings{.kind = OptimizerKind::kAdam}.slots()), 2);
  EXPECT_EQ((OptimizerSettings{.kind = OptimizerKind::kAdamW}.slots()), 2);
  EXPECT_EQ(bits_of(ElementType::kFloat64), 64);
  EXPECT_EQ(bits_of(ElementType::kFixed16), 16);
}

TEST(ChannelRanges, IntersectAndSpan) {
  EXPECT_EQ(intersection({0, 8}, {4, 12}), (ChannelRange{4, 8}));
  EXPECT_TRUE(intersection({0, 4}, {4, 8}).empty());
  EXPECT_TRUE(intersection({0, 4}, {6, 8}).empty());
  EXPECT_EQ(hull({0, 2}, {6, 8}), (ChannelRange{0, 8}));
  EXPECT_EQ(hull({3, 3}, {6, 8}), (ChannelRange{6, 8}));
  EXPECT_EQ(hull({6, 8}, {0, 0}), (ChannelRange{6, 8}));
  EXPECT_EQ(text_of(ChannelRange{0, 64}), "[0, 64)");
}

}  // namespace
}  // namespace millrace
