#include "solve_flags.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/number_text.h"
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
  const std::string limits = "Limits of assessments";
  const auto limit = [&](const char* flag, FigureLimits& l, const std::string& what) {
    verb.add_option_function<double>(
            flag,
            [&l](double check) {
              l.keep16 *= check / l.check;
              l.check = check;
            },
            what + " from which a check is due (default " + shortest_double(l.check) + "); keep16 moves with it")
        ->group(limits);
  };
  limit("--limit-kl", options.limits.kl, "KL of attention weights, measured, in nats,");
  limit("--limit-rel", options.limits.rel, "Relative change of a layer's output");
  limit("--limit-noise", options.limits.noise, "Noise of attention logits, predicted, in nats,");
  limit("--limit-tokens", options.limits.flushed_tokens, "Share of tokens whose values are flushed");
  verb.add_option("--limit-growth", options.limits.growth,
                  "Convergence: growth of an absmax that still counts as settled")
      ->group(limits)
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
