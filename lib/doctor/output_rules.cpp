// E: what a sample of the model's output shows.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number_text.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;
using Kind = OutputTrouble::Kind;

std::string shown(const std::string& unit) {
  constexpr size_t kMost = 48;
  return unit.size() <= kMost ? unit : unit.substr(0, kMost) + "...";
}

Found trouble(const Facts& f, Kind kind, bool exclamation_marks) {
  Found found;
  for (const OutputTrouble& t : f.output) {
    if (t.kind != kind || (kind == Kind::OneCharacter && (t.unit == "!") != exclamation_marks)) continue;
    found.holds = true;
    found.evidence.push_back({t.file, t.line, shown(t.unit), 1, 0});
    if (t.n_repeats > 0) found.detail = std::to_string(t.n_repeats) + " times, from byte " + std::to_string(t.at_byte);
  }
  return found;
}

// Loops of several answers that begin at the same token. Different prompts give different texts: within a few tokens of
// each other is chance, at the very same one is a boundary.
Found same_onset(const Facts& f) {
  for (size_t i = 0; i < f.output.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      const OutputTrouble &a = f.output[k], &b = f.output[i];
      const bool loops = a.kind != Kind::Soup && b.kind != Kind::Soup;
      if (!loops || a.at_token < 1 || a.at_token != b.at_token || a.file == b.file) continue;
      return {true,
              "token " + std::to_string(a.at_token),
              {{a.file, a.line, shown(a.unit), 1, 0}, {b.file, b.line, shown(b.unit), 1, 0}}};
    }
  return {};
}

Found no_answer(const Facts& f) {
  Found found;
  for (const UnansweredOutput& u : f.unanswered) {
    found.holds = true;
    found.evidence.push_back({u.file, 0, "", 1, 0});
    if (u.finish_reason == "length")
      found.detail = "finish_reason 'length': max_tokens was reached during the reasoning";
    else if (found.detail.empty() && !u.finish_reason.empty())
      found.detail = "finish_reason " + quoted(u.finish_reason) + ": the parser found no end of the reasoning";
  }
  return found;
}

// c · tanh(x / c) in bf16 is a step of bf16 from c only where x is three times c, far above any sound logit.
Found at_the_soft_cap(const Facts& f) {
  const double cap = f.model.logit_cap;
  if (!(cap > 0)) return {};
  const double step = std::ldexp(1.0, std::ilogb(cap) - 7);
  Found found;
  size_t n_tokens = 0;
  for (const TiedLogits& t : f.tied_logits) {
    const auto n = std::count_if(t.best.begin(), t.best.end(), [&](double best) { return best >= cap - step; });
    if (n == 0) continue;
    found.holds = true;
    n_tokens += static_cast<size_t>(n);
    found.evidence.push_back({t.file, 0, "", 1, 0});
  }
  if (found.holds) found.detail = std::to_string(n_tokens) + " tokens at the cap of " + shortest_double(cap);
  return found;
}

constexpr std::string_view kCompare = "run the same prompt at temperature 0 with {control} and nothing else changed";

constexpr CombinationRule kRules[] = {
    {kExclamationMarks, kOutput, [](const Facts& f) { return trouble(f, Kind::OneCharacter, true); }},
    {{"E15b", Error, Inferred, "one character repeated forever: a token other than '!'", "the cause", kCompare,
      "vllm issue 39407", Cause::None, 0},
     kOutput,
     [](const Facts& f) { return trouble(f, Kind::OneCharacter, false); }},
    {{"E16", Error, Inferred, "the output repeats itself",
      "a loss of precision: sampling settings, prompts and weights do it too, and a fixed onset points to a boundary "
      "of pages or graphs first",
      kCompare, "ik_llama.cpp 2136; vllm issues 37554, 39407", Cause::None, 0},
     kOutput,
     [](const Facts& f) { return trouble(f, Kind::Loop, false); }},
    {{"E04", Warning, Inferred, "answers to different prompts begin to loop at the same token",
      "a loss of precision, which would begin anywhere: pages, windows, graphs and chunks end at fixed tokens",
      "--enforce-eager and --no-enable-prefix-caching, one after the other, with the same prompts", "ik_llama.cpp 2136",
      Cause::KernelDefect, 5},
     kOutput,
     same_onset},
    {{"E05", Error, Computed,
      "logits lie at the model's soft-cap, several tokens alike: hidden states are far too large, and what is chosen "
      "is chance",
      "that the cache is to blame: weights or activations with a wrong scale do the same",
      "the same prompt with {control}; where it is the same, look at the scales of weights and activations",
      "30 tanh(x / 30) in bf16 is 29.875 from x = 90 and 30 from x = 103; vllm issue 39407", Cause::NotTheCache, 5},
     kOutput | kCheckpoint,
     at_the_soft_cap},
    {{"E13", Warning, Reported, "the answer is empty: the whole output is reasoning",
      "anything about the cache: an unquantized one does it too; reasoning that loops is a finding of its own",
      "more max_tokens where they ended first; else the same prompt without --reasoning-parser, to see where thinking "
      "ends",
      "reported for vLLM with --reasoning-parser qwen3", Cause::AnswerInReasoning, 5},
     kOutput,
     no_answer},
    {{"E14", Note, Reported,
      "there is a report about Qwen3.6-27B-FP8 with prefix caching in which, after a while, all answers are '!' until "
      "a restart",
      "that this is the same: its cause is not known, and an attempt with vLLM 0.28.0 did not reproduce it",
      "restart; where the first answers are sound, --no-enable-prefix-caching", "vllm issue 55291"},
     kOutput | kModel | kKnownServer,
     [](const Facts& f) {
       const bool reported =
           f.is(Engine::Vllm) && f.model.hybrid == Trait::Yes && f.flag("no-enable-prefix-caching") == nullptr;
       return reported ? trouble(f, Kind::OneCharacter, true) : Found{};
     }},
    {{"E12", Warning, Inferred,
      "scripts change within words, characters are invalid, or words stand twice again and again: token soup",
      "the cause; a text about writing systems, or a song, looks like it", kCompare, "vllm issues 34759, 38652",
      Cause::None, 0},
     kOutput,
     [](const Facts& f) { return trouble(f, Kind::Soup, false); }},
};

}  // namespace

std::span<const CombinationRule> output_rules() { return kRules; }

}  // namespace kvcal
