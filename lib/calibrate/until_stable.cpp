#include "calibrate/until_stable.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "solve/dependence.h"
#include "stats/merge.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

// Prompts to begin with: so many, and so large a share of all.
constexpr size_t kFewestPrompts = 8, kFirstShare = 8;

std::string percent_text(double percent) {
  char text[40];
  std::snprintf(text, sizeof text, "%g %%", percent);
  return text;
}

// Why a set of prompts is not known to be enough, "" when it is: what the newest of them raised by more than `percent`,
// or which of them a range depends on.
std::string unsettled(const Statistics& before, const Statistics& after, double percent) {
  for (size_t c = 0; c < after.caches.size(); ++c)
    for (const CacheSite which : sites_of(after.caches[c].layout)) {
      const SiteStatistics& site = after.caches[c].at(which);
      if (site.heads.empty()) continue;
      const std::string name =
          "layer " + std::to_string(after.caches[c].layout.layer) + " " + std::string(name_of(which));
      const double was = static_cast<double>(absmax_of(before.caches[c].at(which))),
                   is = static_cast<double>(absmax_of(site));
      if (100 * (is - was) > percent * was) {
        char text[80];
        std::snprintf(text, sizeof text, " from %.4g to %.4g", was, is);
        return "the last prompts raised " + name + text;
      }
      if (const auto alone = depends_on_prompt(prompt_maxima(site, after.run.n_passes), AssessmentLimits().dependence))
        return name + " depends on prompt " + quoted(after.run.prompt_ids[alone->prompt]) + " alone";
    }
  return "";
}

SequencePlan plan_of_first(const std::vector<PromptTokens>& prompts, size_t n, SequenceOptions options, int passes) {
  options.passes = passes;
  return plan_sequences({prompts.begin(), prompts.begin() + static_cast<ptrdiff_t>(n)}, options);
}

// As many prompts as it takes, each alone.
Statistics draw_prompts(Sweeper& sweeper, const std::vector<PromptTokens>& prompts, const CalibrationOptions& options,
                        SanityCheck& sanity, NoticeListener& listener) {
  const size_t all = prompts.size();
  size_t n = std::min(all, std::max(kFewestPrompts, all / kFirstShare)), before = 0;
  Statistics sum = sweeper.run(plan_of_first(prompts, n, options.sequences, 1), SweepPart{}, sanity);
  std::string why = "there are too few to tell";
  while (n < all && !why.empty()) {
    before = std::exchange(n, std::min(all, 2 * n));
    const SequencePlan plan = plan_of_first(prompts, n, options.sequences, 1);
    Statistics more = merge(sum, sweeper.run(plan, {1, 1, static_cast<int64_t>(before)}, sanity));
    why = unsettled(sum, more, options.until_stable);
    sum = std::move(more);
  }
  if (!why.empty())
    listener.hear(Notice::Warning, "not stable: all " + std::to_string(n) + " prompts are used, and " + why +
                                       "; use more, or more varied, prompts");
  else
    listener.hear(Notice::Note, "stable with " + std::to_string(n) + " of " + std::to_string(all) +
                                    " prompts: the last " + std::to_string(n - before) +
                                    " raised no absmax of keys, values or queries by more than " +
                                    percent_text(options.until_stable));
  return sum;
}

}  // namespace

DrawnRun run_until_stable(Sweeper& sweeper, const std::vector<PromptTokens>& prompts, const CalibrationOptions& options,
                          SanityCheck& sanity, NoticeListener& listener) {
  DrawnRun run;
  run.statistics = draw_prompts(sweeper, prompts, options, sanity, listener);
  const int passes = options.sequences.passes;
  run.sequences = plan_of_first(prompts, run.statistics.run.prompt_ids.size(), options.sequences, passes);
  if (passes > 1) run.statistics = merge(run.statistics, sweeper.run(run.sequences, {2, passes, 0}, sanity));
  run.statistics.run = sweeper.record(run.sequences, passes, sanity);
  return run;
}

}  // namespace kvcal
