#include "evaluate/answers.h"

#include <algorithm>

#include "evaluate/rounding_tap.h"
#include "prefill/generate.h"

namespace kvcal {
namespace {

constexpr int64_t kChunkTokens = 2048;  // of a prompt at a time

ModelAnswer answer_of(const Generated& generated, const GenerateOptions& options, const TokenizedPrompt& prompt,
                      const std::optional<Tokenizer>& tokenizer) {
  ModelAnswer answer;
  answer.tokens = generated.output_ids;
  answer.ended = !answer.tokens.empty() && std::ranges::count(options.stop_tokens, answer.tokens.back()) > 0;
  if (tokenizer) answer.text = tokenizer->decode(answer.tokens, true);
  answer.loop = find_loop(answer.tokens);
  if (prompt.expect) answer.correct = prompt.expect->is_met_by(answer.text);
  return answer;
}

}  // namespace

int64_t first_other(const ModelAnswer& a, const ModelAnswer& b) {
  return std::ranges::mismatch(a.tokens, b.tokens).in1 - a.tokens.begin();
}

AnswerFigures figures_of(const Answers& reference, const Answers& variant) {
  AnswerFigures f;
  f.n_answers = static_cast<int64_t>(variant.size());
  int64_t equal = 0, longer = 0;
  for (size_t i = 0; i < variant.size(); ++i) {
    const ModelAnswer &a = reference[i], &b = variant[i];
    const int64_t same = first_other(a, b);
    equal += same;
    longer += static_cast<int64_t>(std::max(a.tokens.size(), b.tokens.size()));
    if (a.tokens == b.tokens)
      ++f.n_equal;
    else if (!f.first_divergence || same < *f.first_divergence) {
      f.first_divergence = same;
      f.first_divergence_prompt = static_cast<int64_t>(i);
    }
    f.n_loops += b.loop.has_value();
    f.n_empty += b.ended && b.tokens.size() == 1;
    f.n_endless += !b.ended;
    f.n_expected += b.correct.has_value();
    f.n_correct += b.correct.value_or(false);
  }
  if (longer > 0) f.agreement = static_cast<double>(equal) / static_cast<double>(longer);
  return f;
}

std::map<std::string, RightAnswers> right_by_tag(const Answers& answers, const std::vector<PromptTokens>& prompts) {
  std::map<std::string, RightAnswers> right;
  for (size_t i = 0; i < answers.size(); ++i)
    for (const std::string& tag : prompts[i].tags) {
      right[tag].n_expected += answers[i].correct.has_value();
      right[tag].n_correct += answers[i].correct.value_or(false);
    }
  return right;
}

AllAnswers answer(OpenedModel& model, Ops& op, const FedPrompts& fed, const std::vector<PromptTokens>& prompts,
                  const std::vector<Variant>& variants, const AnswerOptions& how) {
  AllAnswers all;
  Generator generator(*model.model, op, model.weights, kChunkTokens);
  GenerateOptions options;
  options.max_new_tokens = how.max_new_tokens;
  options.block = how.keep_recent;
  options.n_top = 0;
  options.stop_tokens = end_tokens(model.checkpoint);
  const auto answers_with = [&](KvTap& tap, const std::string& name, DType state) {
    options.state = state;
    Answers answers;
    for (size_t i = 0; i < prompts.size(); ++i)
      answers.push_back(while_doing("answering prompt " + quoted(prompts[i].id) + " with " + name, [&] {
        const Generated generated = generator.generate(prompts[i], options, tap);
        all.n_decoded += static_cast<int64_t>(generated.output_ids.size()) - 1;
        all.decode_seconds += generated.decode_seconds;
        return answer_of(generated, options, fed.prompts[i], fed.tokenizer);
      }));
    return answers;
  };
  NoTap away;
  all.answers.push_back(answers_with(away, "the cache as it is", DType::F32));
  for (const Variant& variant : variants) {
    RoundingTap tap(variant, op, how.keep_recent);
    all.answers.push_back(answers_with(tap, variant.name, variant.state));
  }
  return all;
}

}  // namespace kvcal
