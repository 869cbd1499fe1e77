#include "solve_flags.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/number_text.h"
#include "idle_options.h"
#include "solve/policies.h"

namespace kvcal {

void SolveFlags::add_to(CLI::App& verb) {
  add_scales_to(verb);
  add_limits_to(verb);
}

void SolveFlags::add_scales_to(CLI::App& verb) {
  const std::string group = "Scales";
  std::string policies_help = "How scales are chosen (default: by format, pow2 for FP8, absmax for INT8)";
  for (const PolicyEntry& p : policies()) policies_help += "\n" + std::string(p.name) + ": " + std::string(p.summary);
  verb.add_option("--policy", options.policy, policies_help)->type_name("NAME")->group(group);
  verb.add_option("--headroom", options.headroom,
                  "For absmax and pow2: largest representable value / absmax (default: by format, 2 for FP8)")
      ->group(group);
  verb.add_option("--granularity", granularity,
                  "tensor: one scale per site; head: one per head; channel: one per channel of keys and values (int8)")
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--dtype", options.format, "Cache format: fp8_e4m3, fp8_e4m3fnuz or int8")
      ->type_name("FORMAT")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--percentile", options.percentile, "For percentile: share of magnitudes to represent, in %")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--max-model-len", options.max_model_len,
                  "Context length of the server; key scales allow for rotation up to it (default: the model's)")
      ->group(group);
}

void SolveFlags::add_limits_to(CLI::App& verb) {
  const std::string group = "Assessment limits";
  const auto limit = [&](const char* flag, double& l, const std::string& what) {
    verb.add_option(flag, l, "'keep16' above this " + what)->group(group)->capture_default_str();
  };
  limit("--limit-kl", options.limits.kl, "measured KL divergence of attention weights, in nats");
  limit("--limit-rel", options.limits.rel, "relative change of a layer's attention output");
}

void SolveFlags::refuse_idle_options(const CLI::App& verb) const {
  const PolicyEntry& policy = policy_of(options);
  const std::string with = "with --policy " + std::string(policy.name);
  if (!policy.uses_headroom) refuse_idle(verb, with, {"--headroom"});
  if (policy.name != "percentile") refuse_idle(verb, with, {"--percentile"});
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
