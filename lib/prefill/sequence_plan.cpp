#include "prefill/sequence_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/sha256.h"
#include "base/shuffled.h"

namespace kvcal {
namespace {

constexpr size_t kSanityPrompts = 4;
constexpr int64_t kSanityTokens = 64;
// Each takes some hundred bytes, before anything says how much memory there is.
constexpr int64_t kMostRepeated = 200'000;
constexpr size_t kWarmupShare = 16;  // a warm-up pass runs one prompt in 16, at least one

// Every prompt as often as its weight says.
std::vector<int64_t> repeated_prompts(const std::vector<PromptTokens>& prompts) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < prompts.size(); ++i)
    order.insert(order.end(), static_cast<size_t>(prompts[i].weight), static_cast<int64_t>(i));
  return order;
}

Piece whole(const std::vector<PromptTokens>& prompts, int64_t prompt) {
  return {prompt, 0, static_cast<int64_t>(prompts[static_cast<size_t>(prompt)].ids.size())};
}

Sequence single(const Piece& piece, int pass) { return {0, pass, {piece}, piece.n_tokens}; }

// Prompts end to end, each whole, a new sequence where the next would not fit.
std::vector<Sequence> packed(const std::vector<PromptTokens>& prompts, const std::vector<int64_t>& order, int pass,
                             int64_t max_length) {
  std::vector<Sequence> sequences;
  for (const int64_t p : order) {
    const Piece piece = whole(prompts, p);
    if (sequences.empty() || sequences.back().n_tokens + piece.n_tokens > max_length)
      sequences.push_back({0, pass, {}, 0});
    sequences.back().pieces.push_back(piece);
    sequences.back().n_tokens += piece.n_tokens;
  }
  return sequences;
}

void check(const std::vector<PromptTokens>& prompts, const SequenceOptions& options) {
  if (prompts.empty()) fail("no prompts to run");
  int64_t n_repeated = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const PromptTokens& p = prompts[i];
    if (i > 0 && prompts[i - 1].id == p.id) fail("two prompts have the id " + quoted(p.id));
    if (p.ids.empty()) fail("prompt " + quoted(p.id) + " has no tokens");
    if (p.weight < 1)
      fail("prompt " + quoted(p.id) + " has weight " + std::to_string(p.weight) + ", expected 1 or more");
    n_repeated += std::min(p.weight, kMostRepeated + 1);
    if (n_repeated > kMostRepeated)
      fail("the prompts, each as often as its weight says, are more than the " + std::to_string(kMostRepeated) +
           " that can be fed: prompt " + quoted(p.id) + " of weight " + std::to_string(p.weight) +
           " is beyond; use smaller weights or fewer prompts");
    if (static_cast<int64_t>(p.ids.size()) > options.max_length)
      fail("prompt " + quoted(p.id) + " has " + std::to_string(p.ids.size()) +
           " tokens, more than the maximum length " + std::to_string(options.max_length));
  }
  if (options.passes < 1) fail("the number of passes is " + std::to_string(options.passes) + ", expected 1 or more");
  if (options.n_shards < 1 || options.shard < 0 || options.shard >= options.n_shards)
    fail("shard " + std::to_string(options.shard) + " of " + std::to_string(options.n_shards) + " does not exist");
}

std::string digest(const SequencePlan& plan) {
  Sha256 sha;
  const auto number = [&](int64_t n) { sha.update(std::to_string(n) + ","); };
  for (const PromptTokens& p : plan.prompts) {
    sha.update(p.id + "\n");
    for (const int32_t id : p.ids) number(id);
    sha.update(p.encoder_sha256);
    sha.update("\n");
  }
  for (const Sequence& s : plan.measured) {
    number(s.pass);
    for (const Piece& p : s.pieces) {
      number(p.prompt);
      number(p.offset);
      number(p.n_tokens);
    }
    sha.update("\n");
  }
  return sha.hex();
}

/// Every pass has every prompt whole.
int64_t encoder_tokens_of(const SequencePlan& plan, int passes) {
  int64_t n = 0;
  for (const PromptTokens& p : plan.prompts)
    if (p.encoder) n += passes * p.weight * std::ranges::count_if(p.encoder->row_of, [](auto row) { return row >= 0; });
  return n;
}

/// A sequence of a later pass that is one of pass 1 once more becomes a repeat of that one. Numbers all of them, those
/// that are run first.
void fold_repeats(std::vector<Sequence>& sequences) {
  const auto repeats = [](const Sequence& s) { return s.pass > 1 && s.pieces.size() == 1; };
  const auto first = std::stable_partition(sequences.begin(), sequences.end(), std::not_fn(repeats));
  for (size_t i = 0; i < sequences.size(); ++i) sequences[i].id = static_cast<int64_t>(i);
  std::map<int64_t, Sequence*> alone;  // of pass 1, by prompt
  for (Sequence& s : std::span(sequences.begin(), first))
    if (s.pass == 1) alone.try_emplace(s.pieces.front().prompt, &s);
  for (const Sequence& s : std::span(first, sequences.end()))
    alone.at(s.pieces.front().prompt)->repeats.push_back({s.id, s.pass});
  sequences.erase(first, sequences.end());
}

}  // namespace

int64_t tokens_of(const std::vector<Sequence>& sequences) {
  return std::accumulate(sequences.begin(), sequences.end(), int64_t{0},
                         [](int64_t n, const Sequence& s) { return n + s.n_tokens; });
}

int64_t SequencePlan::n_tokens() const {
  int64_t n = 0;
  for (const Sequence& s : measured) n += s.n_tokens * static_cast<int64_t>(1 + s.repeats.size());
  return n;
}

int64_t SequencePlan::longest() const {
  int64_t n = 0;
  for (const Sequence& s : measured) n = std::max(n, s.n_tokens);
  return n;
}

SequencePlan plan_sequences(std::vector<PromptTokens> prompts, const SequenceOptions& options) {
  std::sort(prompts.begin(), prompts.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  check(prompts, options);
  SequencePlan plan;
  plan.prompts = std::move(prompts);
  const std::vector<int64_t> order = repeated_prompts(plan.prompts);
  for (int pass = 1; pass <= options.passes; ++pass) {
    if (pass == 1) {
      for (const int64_t p : order) plan.measured.push_back(single(whole(plan.prompts, p), pass));
      continue;
    }
    const auto sequences = packed(plan.prompts, pass == 2 ? order : shuffled(order, static_cast<uint64_t>(pass)), pass,
                                  options.max_length);
    plan.measured.insert(plan.measured.end(), sequences.begin(), sequences.end());
  }
  plan.sha256 = digest(plan);
  plan.n_tokens_of_all = plan.n_tokens();
  plan.n_encoder_tokens_of_all = encoder_tokens_of(plan, options.passes);
  plan.longest_of_all = plan.longest();
  fold_repeats(plan.measured);
  plan.n_sequences = static_cast<int64_t>(plan.measured.size());
  if (options.n_shards > plan.n_sequences)
    fail("the plan has " + std::to_string(plan.n_sequences) + " sequence(s), too few for " +
         std::to_string(options.n_shards) + " shards; expected at most one shard per sequence");
  if (options.n_shards > 1)
    std::erase_if(plan.measured, [&](const Sequence& s) { return s.id % options.n_shards != options.shard; });

  int64_t next_id = static_cast<int64_t>(order.size()) * options.passes;  // above every measured id
  int64_t next_warmup = 0;
  for (int pass = 0; pass < options.warmup_passes; ++pass)
    for (size_t i = 0; i < plan.prompts.size(); i += kWarmupShare)
      if (next_warmup++ % options.n_shards == options.shard)
        plan.warmup.push_back(single(whole(plan.prompts, static_cast<int64_t>(i)), 0));
  for (size_t i = 0; options.sanity && i < std::min(plan.prompts.size(), kSanityPrompts); ++i) {
    Piece piece = whole(plan.prompts, static_cast<int64_t>(i));
    piece.n_tokens = std::min(piece.n_tokens, kSanityTokens);
    plan.sanity.push_back(single(piece, 0));
  }
  for (auto* list : {&plan.warmup, &plan.sanity})
    for (Sequence& s : *list) s.id = next_id++;
  return plan;
}

}  // namespace kvcal
