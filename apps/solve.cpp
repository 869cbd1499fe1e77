// kvcal solve STATS: scales again from saved statistics with another policy; no model needed.
#include <CLI/CLI.hpp>

#include "artifact/make_artifact.h"
#include "artifact_output.h"
#include "result_text.h"
#include "solve/solution.h"
#include "solve_flags.h"
#include "stats/statistics_file.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct SolveVerbFlags {
  std::string statistics;
  SolveFlags solve;
  ArtifactOutput output;
};

Exit run(const SolveVerbFlags& flags) {
  const SolveOptions options = flags.solve.resolve();
  const Statistics statistics = read_statistics(flags.statistics);
  flags.output.check();
  const Artifact artifact = make_artifact(statistics, solve(statistics, options));
  const std::string sha256 = flags.output.write(artifact);
  flags.output.print(artifact, sha256, Json::object(), {});
  return Exit::Done;
}

}  // namespace

void add_solve(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<SolveVerbFlags>();
  CLI::App* verb = app.add_subcommand("solve", "Compute scales from saved statistics, without the model");
  verb->add_option("STATS", flags->statistics, "Statistics file (calibrate --stats)")->required();
  flags->output.add_to(*verb);
  flags->solve.add_to(*verb);
  verb->footer(
      "Examples:\n"
      "  kvcal solve run.kvstats --policy pow2 -o kv-cache-scales.json\n"
      "  kvcal solve run.kvstats --granularity head --dtype fp8_e4m3fnuz -o mi300.json");
  verb->callback([flags, verb, &chosen] {
    flags->solve.refuse_idle_options(*verb);
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
