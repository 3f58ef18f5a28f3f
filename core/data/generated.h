// Two tasks for recurrent networks that are drawn when they are asked for, like core/data/synthetic.h: the same on every machine,
// in any order, and no memory for samples. Internal to core/data.
//
//   DataSplit data = make_adding({.steps = 200, .samples = 10000, .seed = 1});      // --data adding:200:10000
//   DataSplit data = make_ctc_task({.classes = 5, .labels = 8, .samples = 2000});   // --data ctc:5:8:2000
//
// Adding (Hochreiter and Schmidhuber, 1997): two features a step, a number drawn evenly from 0 to 1 and a mark; two steps are marked, one
// in each half. What is asked for at the end is the sum of the two marked numbers. The literature asks for the number itself, by
// squared error; the losses here tell classes apart, so the sum's range of 0 to 2 is cut into kAddingBins bins of one tenth. Who
// ignores the marks does best to always say how sums are distributed (a triangle): loss adding_baseline_loss(), accuracy
// adding_baseline_accuracy(); by squared error that is the literature's 1/6. The mean of the bins' centres under a network's
// probabilities is a number again, whose squared error can be held against the literature's (solved below 0.01).
//
// CTC task: a row of labels 1 to classes, each heard for three to five steps as a pattern of its own under noise, with one to
// three steps of noise alone before each and at the end. Where in time a label is spoken is not told. Class 0 is the blank.
#pragma once

#include <cstdint>
#include <vector>

#include "core/data/dataset.h"

namespace millrace {

struct AddingTask {
  int64_t steps = 200;      // 2 and more
  int64_t samples = 10000;  // to train on; a fifth as many, at most 10,000, to test on
  uint64_t seed = 1;
};
inline constexpr int64_t kAddingBins = 20;
inline constexpr double kAddingBinWidth = 0.1;
DataSplit make_adding(const AddingTask& task);
// Of always saying how sums are distributed.
double adding_baseline_loss();
double adding_baseline_accuracy();
// The sum that a sample asks for.
double adding_sum(const Dataset& data, int64_t sample);

struct CtcTask {
  int64_t classes = 5;  // without the blank
  int64_t labels = 8;   // of the longest row; each has one at least
  int64_t samples = 2000;
  uint64_t seed = 1;
};
inline constexpr int64_t kCtcFeatures = 12;
DataSplit make_ctc_task(const CtcTask& task);

}  // namespace millrace
