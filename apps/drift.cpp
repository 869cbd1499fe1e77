// kvcal drift SCALES --stats LIVE...: does what a server caches today still fit the scales?
#include "artifact/drift.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "artifact/artifact.h"
#include "base/number_text.h"
#include "drift_output.h"
#include "idle_options.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct DriftFlags {
  std::string scales, format = "text";
  std::vector<std::string> statistics;
  DriftLimits limits;
  bool json = false;
};

void check_share(const char* flag, double share) {
  if (!std::isfinite(share) || share < 0)
    fail(std::string(flag) + " is " + formatted("%.5g", share) + ", expected a share, 0 or more, such as 0.001");
}

void check(const DriftFlags& flags) {
  check_share("--max-clipped", flags.limits.clipped);
  check_share("--max-lost", flags.limits.lost);
  if (flags.limits.growth) check_share("--max-growth", *flags.limits.growth);
  const std::vector<std::string> known = {"text", "json", "prometheus"};
  if (std::ranges::find(known, flags.format) == known.end()) fail_unknown("format", flags.format, known);
}

Json to_json(const DriftFlags& flags, const Drift& drift) {
  const DriftLimits& limits = flags.limits;
  return {
      {"scales", flags.scales},
      {"statistics", flags.statistics},
      {"limits",
       {{"clipped", limits.clipped}, {"lost", limits.lost}, {"growth", limits.growth ? Json(*limits.growth) : Json()}}},
      {"within", drift.within()},
      {"sites", drift_json(drift.sites())}};
}

Exit run(const DriftFlags& flags) {
  check(flags);
  const Artifact artifact = read_artifact(flags.scales);
  Drift drift = while_doing(quoted(flags.scales), [&] { return Drift(artifact, flags.limits); });
  for (const std::string& file : flags.statistics) drift.add(file, read_statistics(file));
  for (const std::string& note : drift.notes()) say("kvcal: ", note);
  if (flags.json || flags.format == "json")
    write_json(to_json(flags, drift));
  else if (flags.format == "text")
    write_result(drift_text(drift.sites()));
  else
    write_lines(drift_prometheus(drift.sites()));
  return drift.within() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_drift(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<DriftFlags>();
  CLI::App* verb = app.add_subcommand("drift", "Tell whether live traffic still fits the scales");
  verb->add_option("SCALES", flags->scales, "kv-cache-scales.json that is served")->required();
  verb->add_option("--stats", flags->statistics, "Statistics of traffic (docs/live.md), of several the oldest first")
      ->required()
      ->type_name("FILE");
  verb->add_option("--max-clipped", flags->limits.clipped, "Largest share of values clipped")->capture_default_str();
  verb->add_option("--max-lost", flags->limits.lost, "Largest share of energy clipped, or too small for the format")
      ->capture_default_str();
  verb->add_option("--max-growth", flags->limits.growth,
                   "Largest growth of absmax over the file's, 0.25 = 25 % (default: any that the scale has room for)");
  verb->add_option("--format", flags->format, "text, prometheus")->type_name("NAME")->capture_default_str();
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->footer(
      "Shares are those of a site's worst head; of several files, of the worst. Where the calibration clipped or lost\n"
      "values on purpose, twice that share is allowed. Values are counted exactly; tokens with a clipped value "
      "between\n"
      "two bounds. Exit code 0: within the limits; 1: a limit is broken, or a value is infinite or NaN; 2: a file "
      "cannot\n"
      "be read, is from another model, or has no tokens.\n"
      "\n"
      "Examples:\n"
      "  kvcal drift kv-cache-scales.json --stats live.kvstats\n"
      "  kvcal drift s.json --stats monday.kvstats tuesday.kvstats --max-growth 0.5\n"
      "  kvcal drift s.json --stats live.kvstats --format prometheus > kvcal.prom");
  verb->callback([flags, verb, &chosen] {
    if (flags->json) refuse_idle(*verb, "with --json", {"--format"});
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
