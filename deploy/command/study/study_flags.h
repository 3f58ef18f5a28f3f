// Internal to deploy/command: what `millrace study` was asked for, and its ways of answering.
//
//   return flags.paper.empty() ? run_study_sweep(flags, team) : run_study_paper(flags, team);
//
// Both return the exit status. On ranks beyond the first they work and print nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "deploy/command/simulate/scenario_flags.h"
#include "node/simulate/simulate.h"
#include "partitioner/study/study.h"

namespace millrace {

struct StudyFlags {
  std::string model, device, cluster, count = "5:100:5", accounting, optimizer, batch_norm, out, paper, engine, command;
  std::vector<std::string> strategies, alignments, topologies, layers, catalogues, limits, given;
  std::vector<double> link_gbps, link_gbps_both;
  std::vector<int64_t> bits, mini_batches;
  std::optional<int64_t> mini_batch;  // where there is one
  std::optional<int64_t> micro_batch, images, streams;
  std::optional<double> target;
  std::optional<double> epoch_images;
  int threads = 0;
  FailureFlags failures;
  std::optional<int64_t> seed;
  bool fc_barrier = false, fpdeep_lifetimes = false, simulate = false, json = false;

  bool has(std::string_view name) const;
};

int run_study_sweep(const StudyFlags& flags, const StudyTeam& team);
int run_study_paper(const StudyFlags& flags, const StudyTeam& team);
int run_study_bb_lstm(const StudyFlags& flags);  // --paper bb-lstm
int run_study_farnn(const StudyFlags& flags);    // --paper farnn
int run_study_cluster(const StudyFlags& flags);  // --cluster
int run_study_engine(const StudyFlags& flags);
int run_study_pe_chain(const StudyFlags& flags);  // --engine pe_chain

// Alone, or as one of mpirun's ranks: `run` gets the team.
int with_study_team(const std::function<int(const StudyTeam&)>& run);

// Threads of one rank: several ranks share the machine.
int study_threads(const StudyFlags& flags, const StudyTeam& team);

// A bar that appears with the first step; none beyond the first rank.
class StudyBar {
 public:
  StudyBar(std::string what, const StudyTeam& team) : what_(std::move(what)), shown_here_(team.rank == 0) {}
  ~StudyBar() {
    if (progress_) progress_->finish();
  }
  void show(int64_t done, int64_t of) {
    if (!shown_here_) return;
    if (!progress_) progress_ = std::make_unique<Progress>(what_, of);
    progress_->advance(done - shown_);
    shown_ = done;
  }

 private:
  std::string what_;
  bool shown_here_;
  std::unique_ptr<Progress> progress_;
  int64_t shown_ = 0;
};

void write_study(const std::string& folder, const std::vector<std::pair<const char*, std::string>>& files);
// The journal of --out, if there is one; says on the first rank how much of it is there.
std::unique_ptr<StudyJournal> open_study_journal(const StudyFlags& flags, const StudyTeam& team, const StudyQuestion& question);
void tell_what_is_found(const StudyFlags& flags, const StudyTeam& team, const StudyWork& work, std::string_view pieces);

// What a study keeps of a run.
SimulatedFigures simulated_figures(const SimulationResult& result);

// All constants of a cost model, so that a study goes on only with the same.
std::string digest_of_constants(const CostModel& model);

}  // namespace millrace
