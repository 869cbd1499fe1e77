#include "closing_text.h"

#include <cstdio>

#include "base/counted.h"

namespace kvcal {

std::string closing_text(const CalibrationResult& result, const std::string& digests) {
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.1f s, %.0f tokens/s", result.seconds,
                static_cast<double>(result.n_tokens_run) / result.seconds);
  const RunRecord& run = result.statistics.run;
  return "kvcal: " + counted(static_cast<int64_t>(run.prompt_ids.size()), "prompt") + ", " +
         counted(result.n_tokens, "token") + " in " + counted(run.n_passes, "pass", "passes") + ", " + rate + "; " +
         digests;
}

std::string emulation_text(const std::string& activation_quant, const std::filesystem::path& scales) {
  return "kvcal: activations were rounded as servers do (" + activation_quant + "); 'kvcal diff WITHOUT.json " +
         scales.string() + "' with a run without --emulate-activation-quant shows how much each range changes";
}

}  // namespace kvcal
