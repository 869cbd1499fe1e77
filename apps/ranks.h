// calibrate --mpi: the parts of a run on the ranks of an MPI job. Rank 0 reads the prompts and writes the results; the
// statistics of the others come to it from memory to memory.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rank_group.h"
#include "calibrate/calibrate.h"

namespace kvcal {

/// Opens libkvcal_mpi.so and joins the job. Throws Error where there is no such library or another build's.
std::unique_ptr<RankGroup> join_ranks();

/// "rank 3 on 'node7'"
std::string name_of(const RankGroup& ranks);

class RankedCalibration {
 public:
  /// `options.resume`: each part keeps its state in a folder named by it, on a file system that the ranks share, and a
  /// job goes on with the parts that an earlier one had, whatever its number of ranks. Refers to `ranks` and
  /// `listener`.
  RankedCalibration(RankGroup& ranks, CalibrationInputs inputs, CalibrationOptions options,
                    CalibrationListener& listener);

  /// All ranks call it. On rank 0 the statistics of the whole plan come out, equal to those of one process; elsewhere
  /// those of some parts. Throws Error naming what this rank has that rank 0 has not: another program, model, plan or
  /// class of processor.
  CalibrationResult run();

  /// When rank 0 has written.
  void remove_states();

 private:
  /// Hears of rank 0's parts; of the statistics nothing, which are not whole yet.
  class Listener final : public CalibrationListener {
   public:
    /// to: null: nobody.
    Listener(CalibrationListener* to, std::function<void(const CalibrationPlan&)> look)
        : to_(to), look_(std::move(look)) {}
    void hear(Notice notice, const std::string& text) override;
    void planned(const CalibrationPlan& plan, const ModelSpec& spec) override;
    void sweep_begins(const SweepOutline& outline) override;
    void step(const RunStep& step, int64_t work_done) override;
    void sweep_ends() override;

   private:
    CalibrationListener* to_;
    std::function<void(const CalibrationPlan&)> look_;
  };

  /// What all ranks must have in common, by name.
  Json identity(const CalibrationPlan& plan) const;
  void check_identity(const CalibrationPlan& plan) const;
  void share_prompts();
  void share_identity();
  CalibrationResult run_part(int64_t part);

  RankGroup& ranks_;
  CalibrationInputs inputs_;
  CalibrationOptions options_;
  std::filesystem::path resume_;  // which the folders of the parts are named by
  Listener listener_;
  PromptSet prompts_;
  Json identity_;  // rank 0's
  std::vector<std::unique_ptr<ResumeFolder>> states_;
};

}  // namespace kvcal
