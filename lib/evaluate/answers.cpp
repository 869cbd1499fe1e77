#include "evaluate/answers.h"

#include <algorithm>

#include "evaluate/variant_tap.h"
#include "prefill/generate.h"

namespace kvcal {
namespace {

constexpr int64_t kChunkTokens = 2048;  // of a prompt at a time

ModelAnswer answer_of(std::vector<int32_t> tokens, const GenerateOptions& options, const TokenizedPrompt& prompt,
                      const std::optional<Tokenizer>& tokenizer) {
  ModelAnswer answer;
  answer.tokens = std::move(tokens);
  answer.ended = !answer.tokens.empty() && std::ranges::count(options.stop_tokens, answer.tokens.back()) > 0;
  if (tokenizer) answer.text = tokenizer->decode(answer.tokens, true);
  answer.loop = find_loop(answer.tokens);
  if (prompt.expect) answer.correct = prompt.expect->is_met_by(answer.text);
  return answer;
}

/// Makes one answer after the other, or takes it from the folder.
class Answerer {
 public:
  Answerer(const AnswerGround& on, const AnswerOptions& how, AnswerFolder* folder, size_t n_in_all)
      : on_(on), folder_(folder), n_in_all_(n_in_all) {
    options_.max_new_tokens = how.max_new_tokens;
    options_.block = how.keep_recent;
    options_.n_top = 0;
    options_.stop_tokens = end_tokens(on.model.checkpoint);
  }

  Answers with(KvTap& tap, const std::string& name, const StateFormat& state) {
    options_.state = state;
    Answers answers;
    for (size_t i = 0; i < on_.prompts.size(); ++i) {
      answers.push_back(while_doing("answering prompt " + quoted(on_.prompts[i].id) + " with " + name, [&] {
        return answer_of(tokens_of(on_.prompts[i], tap), options_, on_.fed.prompts[i], on_.fed.tokenizer);
      }));
      on_.listener.answered(static_cast<int64_t>(n_answers_), static_cast<int64_t>(n_in_all_));
    }
    return answers;
  }

  int64_t n_decoded = 0;
  double decode_seconds = 0;

 private:
  std::vector<int32_t> tokens_of(const PromptTokens& prompt, KvTap& tap) {
    const size_t answer = n_answers_++;
    if (folder_ && answer < folder_->n_made()) return folder_->tokens(answer);
    if (!generator_) generator_.emplace(*on_.model.model, on_.op, on_.model.weights, kChunkTokens);
    Generated generated = generator_->generate(prompt, options_, tap);
    n_decoded += static_cast<int64_t>(generated.output_ids.size()) - 1;
    decode_seconds += generated.decode_seconds;
    if (folder_) folder_->add(generated.output_ids);
    return std::move(generated.output_ids);
  }

  const AnswerGround& on_;
  GenerateOptions options_;
  AnswerFolder* folder_;
  std::optional<Generator> generator_;
  size_t n_answers_ = 0, n_in_all_;
};

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

AllAnswers answer(const AnswerGround& on, const std::vector<Variant>& variants, const AnswerOptions& options,
                  AnswerFolder* folder) {
  Answerer answerer(on, options, folder, (1 + variants.size()) * on.prompts.size());
  AllAnswers all;
  NoTap away;
  all.answers.push_back(answerer.with(away, "the cache as it is", {}));
  for (const Variant& variant : variants) {
    const auto tap = tap_of(variant, on.model.spec(), on.op, options.keep_recent);
    all.answers.push_back(answerer.with(*tap, variant.name, variant.state));
  }
  all.n_decoded = answerer.n_decoded;
  all.decode_seconds = answerer.decode_seconds;
  return all;
}

}  // namespace kvcal
