// What the model answers with its cache as it is and as variants keep it: greedy, token by token, each answer with a
// cache of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/fed_prompts.h"
#include "calibrate/listener.h"
#include "calibrate/opened_model.h"
#include "evaluate/loop.h"
#include "evaluate/resume.h"
#include "evaluate/variant.h"

namespace kvcal {

struct ModelAnswer {
  std::vector<int32_t> tokens;  // without the prompt; the token that ends it included
  bool ended = false;           // by such a token; else it has as many tokens as were allowed
  std::string text;             // "" where the folder has no tokenizer
  std::optional<Loop> loop;
  std::optional<bool> correct;  // of prompts that say what to expect
};

/// Answers of one way to store the cache, by prompt.
using Answers = std::vector<ModelAnswer>;

struct AnswerFigures {
  int64_t n_answers = 0;
  int64_t n_equal = 0;                      // token by token those of the reference
  double agreement = 1;                     // share of tokens before the first that differs, of the longer answer
  std::optional<int64_t> first_divergence;  // token of an answer where the soonest differs
  int64_t first_divergence_prompt = 0;      // of that answer; of equal ones the first
  int64_t n_loops = 0, n_empty = 0, n_endless = 0;  // empty: no token before the end
  int64_t n_expected = 0, n_correct = 0;
};

/// Of the answers whose prompts say what to expect.
struct RightAnswers {
  int64_t n_expected = 0, n_correct = 0;
};

/// By tag of the prompts.
std::map<std::string, RightAnswers> right_by_tag(const Answers& answers, const std::vector<PromptTokens>& prompts);

/// Token of both answers where they begin to differ; the end of the shorter one where it is the beginning of the other.
int64_t first_other(const ModelAnswer& a, const ModelAnswer& b);

AnswerFigures figures_of(const Answers& reference, const Answers& variant);

struct AnswerOptions {
  int64_t max_new_tokens = 0;
  int64_t keep_recent = 0;  // as EvaluationOptions has it
};

/// Answers of the reference, then of each variant, and how long it took to make them after the prompts.
struct AllAnswers {
  std::vector<Answers> answers;
  int64_t n_decoded = 0;  // tokens but the first of each answer, of those that no earlier run had made
  double decode_seconds = 0;
};

/// What answers are made with. `prompts` are those of `fed`, in the same order.
struct AnswerGround {
  OpenedModel& model;
  Ops& op;
  const FedPrompts& fed;
  const std::vector<PromptTokens>& prompts;
  CalibrationListener& listener;
};

/// Weights stay resident, unless all answers are in the folder already; those made now are added to it. Throws Error
/// where a logit is NaN.
AllAnswers answer(const AnswerGround& on, const std::vector<Variant>& variants, const AnswerOptions& options,
                  AnswerFolder* folder);

}  // namespace kvcal
