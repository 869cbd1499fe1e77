// kvcal calibrate --mpi: one job on several processes, of which rank 0 writes.
#include "artifact/make_artifact.h"
#include "calibrate_job.h"
#include "ranks.h"
#include "solve/solution.h"

namespace kvcal {
namespace {

// Rank 0 is ready first: what is wrong with the command line is said once.
Exit run_as_rank(CalibrateFlags& flags, RankGroup& ranks) {
  take_device(flags, ranks.rank_on_host());
  if (ranks.rank() > 0) ranks.broadcast("");
  const CalibrationOptions options = resolved(flags);
  if (ranks.rank() == 0) {
    check_outputs(flags);
    ranks.broadcast("");
  }
  CalibrateConsole console(flags);
  RankedCalibration run(ranks, inputs_of(flags, options), options, console);
  CalibrationResult result = run.run();
  if (ranks.rank() == 0) {
    console.measured(result.statistics);
    result.artifact = make_artifact(result.statistics, solve(result.statistics, options.solve));
    finish(flags, result, console);
  }
  ranks.finish();
  run.remove_states();
  return ranks.rank() > 0 || flags.evaluation.empty() ? Exit::Done : evaluate_written(flags, options);
}

}  // namespace

Exit calibrate_as_rank(CalibrateFlags& flags) {
  const std::unique_ptr<RankGroup> ranks = join_ranks();
  return while_doing(name_of(*ranks), [&] { return run_as_rank(flags, *ranks); });
}

}  // namespace kvcal
