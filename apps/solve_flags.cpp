#include "solve_flags.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "solve/policies.h"

namespace kvcal {

void SolveFlags::add_to(CLI::App& verb) {
  const std::string group = "Scales";
  std::string policies_help = "How a scale is chosen";
  for (const PolicyEntry& p : policies()) policies_help += "; " + std::string(p.name) + ": " + std::string(p.summary);
  verb.add_option("--policy", options.policy, policies_help)->group(group)->capture_default_str();
  verb.add_option("--headroom", options.headroom,
                  "absmax, pow2: representable maximum / absmax (default: the format's, 2 for FP8)")
      ->group(group);
  verb.add_option("--granularity", granularity, "tensor: one scale per site; head: one per head")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--dtype", options.format, "Cache format: fp8_e4m3, fp8_e4m3fnuz, int8")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--percentile", options.percentile, "percentile: share of |x| that must fit, in %")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--max-model-len", options.max_model_len,
                  "Longest context the server will allow; keys provide for rotations up to it (default: the model's)")
      ->group(group);
  verb.add_option("--limit-clipped", options.limits.clipped, "Verdict: share of values clipped")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--limit-lost", options.limits.lost, "Verdict: share of energy clipped or subnormal")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--limit-noise", options.limits.noise, "Verdict: noise of attention logits, in nats")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--limit-growth", options.limits.growth,
                  "Convergence: growth of an absmax that still counts as settled")
      ->group(group)
      ->capture_default_str();
}

SolveOptions SolveFlags::resolve() const {
  SolveOptions resolved = options;
  resolved.granularity = granularity_from_name(granularity);
  if (resolved.max_model_len < 0)
    fail("--max-model-len is " + std::to_string(resolved.max_model_len) + ", expected 0 (the model's own) or more");
  check(resolved);
  return resolved;
}

}  // namespace kvcal
