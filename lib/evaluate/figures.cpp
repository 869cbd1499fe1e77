#include "evaluate/figures.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/position_bucket.h"

namespace kvcal {
namespace {

/// The smallest value that so many of 100 do not exceed.
double percentile(const std::vector<double>& ascending, size_t of_100) {
  const size_t rank = (ascending.size() * of_100 + 99) / 100;
  return ascending[std::max<size_t>(rank, 1) - 1];
}

DivergenceFigures divergence_of(std::span<const ComparedToken> tokens) {
  DivergenceFigures figures;
  std::vector<double> ascending;
  double sum = 0;
  figures.worst = -1;
  for (const ComparedToken& token : tokens) {
    const double kl = token.difference.kl;
    sum += kl;
    ascending.push_back(kl);
    if (!(kl > figures.worst)) continue;
    figures.worst = kl;
    figures.worst_prompt = token.prompt;
    figures.worst_position = token.position;
  }
  std::ranges::sort(ascending);
  figures.mean = sum / static_cast<double>(ascending.size());
  figures.median = percentile(ascending, 50);
  figures.p99 = percentile(ascending, 99);
  return figures;
}

}  // namespace

PredictionFigures figures_of(std::span<const ComparedToken> tokens) {
  PredictionFigures figures;
  std::vector<ComparedToken> finite;
  std::ranges::copy_if(tokens, std::back_inserter(finite), [](const ComparedToken& t) { return t.difference.finite; });
  figures.n_tokens = static_cast<int64_t>(tokens.size());
  figures.n_not_finite = static_cast<int64_t>(tokens.size() - finite.size());
  if (finite.empty()) return figures;
  figures.kl = divergence_of(finite);
  int64_t same = 0;
  for (const ComparedToken& token : finite) {
    same += token.difference.same_top;
    if (!token.has_next) continue;
    ++figures.n_predicted;
    figures.nll += token.difference.nll_variant;
    figures.nll_reference += token.difference.nll_reference;
  }
  figures.top1 = static_cast<double>(same) / static_cast<double>(figures.n_tokens);
  const auto n = static_cast<double>(std::max<int64_t>(figures.n_predicted, 1));
  figures.nll /= n;
  figures.nll_reference /= n;
  return figures;
}

double mean_kl(std::span<const ComparedToken> tokens) {
  const PredictionFigures figures = figures_of(tokens);
  return figures.n_not_finite > 0 ? std::numeric_limits<double>::infinity() : figures.kl.mean;
}

std::map<std::string, PredictionFigures> figures_by(
    std::span<const ComparedToken> tokens,
    const std::function<std::vector<std::string>(const ComparedToken&)>& keys_of) {
  std::map<std::string, std::vector<ComparedToken>> parts;
  for (const ComparedToken& token : tokens)
    for (const std::string& key : keys_of(token)) parts[key].push_back(token);
  std::map<std::string, PredictionFigures> figures;
  for (const auto& [key, part] : parts) figures[key] = figures_of(part);
  return figures;
}

std::vector<PredictionFigures> figures_by_position(std::span<const ComparedToken> tokens) {
  std::vector<std::vector<ComparedToken>> parts;
  for (const ComparedToken& token : tokens) {
    const size_t bucket = static_cast<size_t>(position_bucket(token.position));
    parts.resize(std::max(parts.size(), bucket + 1));
    parts[bucket].push_back(token);
  }
  std::vector<PredictionFigures> figures;
  for (const std::vector<ComparedToken>& part : parts) figures.push_back(figures_of(part));
  return figures;
}

std::vector<PredictionFigures> figures_by_prompt(std::span<const ComparedToken> tokens, size_t n_prompts) {
  std::vector<PredictionFigures> figures;
  auto first = tokens.begin();
  for (size_t i = 0; i < n_prompts; ++i) {
    const auto last =
        std::ranges::upper_bound(first, tokens.end(), static_cast<int64_t>(i), {}, &ComparedToken::prompt);
    figures.push_back(figures_of({first, last}));
    first = last;
  }
  return figures;
}

std::optional<FirstDifference> first_difference(std::span<const ComparedToken> tokens) {
  std::optional<FirstDifference> first;
  for (const ComparedToken& token : tokens)
    if ((!token.difference.same_top || !token.difference.finite) && (!first || token.position < first->position))
      first = {token.prompt, token.position};
  return first;
}

}  // namespace kvcal
