// What a variant's predictions differ by, over all tokens or a part of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluate/comparison.h"

namespace kvcal {

/// Divergences are KL(reference, variant) of the prediction of the next token, in nats.
struct DivergenceFigures {
  double mean = 0, median = 0, p99 = 0, worst = 0;  // of n tokens sorted ascending the ceil(n/2)-th, the ceil(.99 n)-th
  int64_t worst_prompt = 0, worst_position = 0;     // the first of equal ones
  bool operator==(const DivergenceFigures&) const = default;
};

struct PredictionFigures {
  int64_t n_tokens = 0;
  int64_t n_not_finite = 0;  // after which the variant's logits are not: they count as disagreeing, and nowhere else
  DivergenceFigures kl;
  double top1 = 0;                    // share of tokens after which both think the same token the likeliest
  int64_t n_predicted = 0;            // tokens that another follows in their prompt
  double nll = 0, nll_reference = 0;  // nats per token that follows; perplexity is their exp
  bool operator==(const PredictionFigures&) const = default;
};

struct FirstDifference {
  int64_t prompt = 0, position = 0;
};

/// Sums run in the order of the tokens, which is by prompt and position.
PredictionFigures figures_of(std::span<const ComparedToken> tokens);

/// Of them alone what a recipe goes by; infinite where some are not finite.
double mean_kl(std::span<const ComparedToken> tokens);

/// The same of the tokens whose key `key_of` names; none: of no part.
std::map<std::string, PredictionFigures> figures_by(
    std::span<const ComparedToken> tokens,
    const std::function<std::vector<std::string>(const ComparedToken&)>& keys_of);

/// Bucket 0: position 0; bucket b: positions 2^(b-1) to 2^b - 1.
std::vector<PredictionFigures> figures_by_position(std::span<const ComparedToken> tokens);

/// Of each of `n_prompts` prompts; tokens are by prompt.
std::vector<PredictionFigures> figures_by_prompt(std::span<const ComparedToken> tokens, size_t n_prompts);

/// Of the prompts that differ in the likeliest token somewhere, where that begins soonest; of equal ones the first.
std::optional<FirstDifference> first_difference(std::span<const ComparedToken> tokens);

}  // namespace kvcal
