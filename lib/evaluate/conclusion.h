// What an evaluation shows of prompts like those that it ran: figures with intervals, and variants against each other,
// token by token.
#pragma once

#include <string>
#include <vector>

#include "evaluate/evaluate.h"
#include "evaluate/interval.h"
#include "evaluate/prompt_groups.h"

namespace kvcal {

/// Of a variant against the reference. Tokens that several prompts begin with count once.
struct VariantEvidence {
  std::string name;
  Estimate kl;    // mean, in nats a token
  Estimate top1;  // share of tokens after which both hold the same token for the likeliest
  int64_t n_not_finite = 0;
  std::optional<Estimate> correct;  // share of right answers, of prompts that say what to expect
  std::optional<Changes> changes;   // of these against the reference's, by group
  /// By how much the KL grows from token to token of a prompt, in nats per 1,000 tokens: least squares, each prompt
  /// about its own means, so that prompts may differ. Of variants that round recurrent states, where logits are finite.
  std::optional<Estimate> kl_slope;
};

/// How much further from the reference one variant is than another at the same tokens.
struct PairEvidence {
  std::string variant, against;
  Estimate kl;                        // difference of means; above 0: `variant` is worse
  int64_t n_worse = 0, n_better = 0;  // groups
  bool same = false;                  // at every token
  Estimate top1;                      // difference of shares
  int64_t n_lost = 0, n_gained = 0;   // tokens after which `against` alone, or `variant` alone, has the likeliest one
  std::optional<Changes> changes;     // right answers against those of `against`, by group
};

/// How many times as far from the reference a variant is as the floor, at the same tokens. No value: the floor's KL is
/// 0.
struct FloorEvidence {
  std::string variant;
  Estimate difference;  // of mean KLs
  std::optional<Estimate> times;
};

struct Conclusion {
  PromptGroups groups;
  std::vector<VariantEvidence> variants;  // as Evaluation::compared
  std::vector<PairEvidence> pairs;        // files against scale 1.0, formats against the first file (else scale 1.0)
  std::vector<FloorEvidence> floor;       // of variants whose logits are finite, where it was computed

  const VariantEvidence& of(const std::string& name) const;
  const PairEvidence* pair(const std::string& variant) const;  // null: there is none
};

Conclusion conclude(const Evaluation& evaluation);

}  // namespace kvcal
