#include "solve/prompts_beyond.h"

#include <set>

#include "solve/dependence.h"
#include "solve/policies.h"
#include "stats/queries.h"

namespace kvcal {

std::optional<PromptsBeyond> prompts_beyond(const Statistics& statistics, const SolveOptions& options) {
  const RunRecord& run = statistics.run;
  if (run.prompt_ids.size() < 2) return std::nullopt;
  std::set<size_t> beyond_absmax, beyond_headroom;
  const auto add = [&](const SiteStatistics& site) {
    const std::vector<float> maxima = prompt_maxima(site, run.n_passes);
    if (const auto alone = depends_on_prompt(maxima, 1)) beyond_absmax.insert(alone->prompt);
    if (const auto alone = depends_on_prompt(maxima, headroom_of(options))) beyond_headroom.insert(alone->prompt);
  };
  for (const CacheStatistics& cache : statistics.caches) {
    if (run.model && run.model->is_mtp(cache.layout.layer)) continue;
    if (cache.layout.is_mla()) add(latent_row(cache));
    for (const CacheSite site : sites_of(cache.layout))
      if (site != CacheSite::Latent && site != CacheSite::Rope) add(cache.at(site));
  }
  PromptsBeyond beyond;
  beyond.n_prompts = static_cast<int64_t>(run.prompt_ids.size());
  beyond.absmax = static_cast<int64_t>(beyond_absmax.size());
  if (policy_of(options).uses_headroom) beyond.headroom = static_cast<int64_t>(beyond_headroom.size());
  return beyond;
}

}  // namespace kvcal
