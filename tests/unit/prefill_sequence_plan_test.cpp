#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "prefill/batching.h"
#include "prefill/sequence_plan.h"

namespace kvcal {
namespace {

std::vector<PromptTokens> prompts(std::vector<int64_t> lengths) {
  std::vector<PromptTokens> list;
  for (size_t i = 0; i < lengths.size(); ++i)
    list.push_back({std::string(1, static_cast<char>('a' + i)),
                    std::vector<int32_t>(static_cast<size_t>(lengths[i]), static_cast<int32_t>(i)), 1});
  return list;
}

std::string refusal(std::vector<PromptTokens> list, const SequenceOptions& options) {
  try {
    plan_sequences(std::move(list), options);
    return "accepted";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(SequencePlan, pass_one_is_each_prompt_alone_and_pass_two_packs_whole_prompts) {
  SequenceOptions options;
  options.max_length = 100;
  const SequencePlan plan = plan_sequences(prompts({60, 30, 20, 100, 5, 10}), options);
  ASSERT_EQ(plan.measured.size(), 6u + 2u);
  EXPECT_EQ(plan.measured[6].n_tokens, 90);  // a b; c fits neither with b nor with d, and d with none
  EXPECT_EQ(plan.measured[7].n_tokens, 15);  // e f
  EXPECT_EQ(plan.n_tokens(), 2 * 225);
  EXPECT_EQ(plan.longest(), 100);
}

TEST(SequencePlan, a_prompt_that_would_be_alone_again_is_a_repeat) {
  SequenceOptions options;
  options.max_length = 100;
  options.passes = 3;
  const SequencePlan plan = plan_sequences(prompts({51, 100, 70}), options);
  EXPECT_EQ(tokens_of(plan.measured), 221);
  EXPECT_EQ(plan.n_tokens(), 3 * 221);
  std::vector<int64_t> ids;
  for (const Sequence& s : plan.measured) {
    ASSERT_EQ(s.repeats.size(), 2u);
    EXPECT_EQ(s.repeats[0].pass + s.repeats[1].pass, 2 + 3);
    for (const Repeat& r : s.repeats) ids.push_back(r.sequence);
  }
  for (const Sequence& s : plan.warmup) ids.push_back(s.id);
  std::sort(ids.begin(), ids.end());
  EXPECT_TRUE(ids.front() == 3 && std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  auto repeated = prompts({50});
  repeated[0].weight = 2;
  EXPECT_EQ(tokens_of(plan_sequences(repeated, options).measured), 2 * 50 + 2 * 100) << "beside itself it is not alone";
}

TEST(SequencePlan, file_order_does_not_matter) {
  std::vector<PromptTokens> list = prompts({10, 20, 30, 40});
  const SequencePlan a = plan_sequences(list, {});
  std::reverse(list.begin(), list.end());
  const SequencePlan b = plan_sequences(list, {});
  EXPECT_EQ(a.sha256, b.sha256);
  list[0].ids[3] ^= 1;
  EXPECT_NE(plan_sequences(list, {}).sha256, a.sha256);
}

TEST(SequencePlan, warm_up_and_sanity_do_not_change_the_plan) {
  SequenceOptions none;
  none.warmup_passes = 0;
  none.sanity = false;
  SequenceOptions some;
  some.warmup_passes = 3;
  const SequencePlan a = plan_sequences(prompts({10, 200}), none), b = plan_sequences(prompts({10, 200}), some);
  EXPECT_EQ(a.sha256, b.sha256);
  EXPECT_TRUE(a.warmup.empty() && a.sanity.empty());
  EXPECT_EQ(b.warmup.size(), 3u);
  ASSERT_EQ(b.sanity.size(), 2u);
  EXPECT_EQ(b.sanity[1].n_tokens, 64);
  EXPECT_GE(b.warmup[0].id, static_cast<int64_t>(b.measured.size()));
}

TEST(SequencePlan, later_passes_take_other_orders_with_the_same_tokens) {
  SequenceOptions options;
  options.passes = 4;
  options.max_length = 50;
  const SequencePlan plan = plan_sequences(prompts({10, 15, 16, 17, 12, 14}), options);  // three fit
  std::vector<std::vector<int64_t>> order(5);
  std::vector<int64_t> tokens(5, 0);
  for (const Sequence& s : plan.measured)
    for (const Piece& p : s.pieces) {
      order[static_cast<size_t>(s.pass)].push_back(p.prompt);
      tokens[static_cast<size_t>(s.pass)] += p.n_tokens;
    }
  EXPECT_EQ(tokens, (std::vector<int64_t>{0, 84, 84, 84, 84}));
  EXPECT_EQ(order[1], order[2]);
  EXPECT_NE(order[2], order[3]);
  EXPECT_NE(order[3], order[4]);
}

// What a few bytes of a file ask for is refused before a sequence is made of it.
TEST(SequencePlan, weights_beyond_what_can_be_fed_are_refused_at_once) {
  auto list = prompts({1, 1});
  list[0].weight = 200'000;
  EXPECT_NE(refusal(list, {}).find("more than the 200000 that can be fed: prompt 'b' of weight 1 is beyond"),
            std::string::npos);
  list[0].weight = std::numeric_limits<int64_t>::max();
  EXPECT_NE(refusal(list, {}).find("prompt 'a' of weight 9223372036854775807"), std::string::npos);
}

TEST(SequencePlan, a_weight_repeats_the_prompt_in_every_pass) {
  std::vector<PromptTokens> list = prompts({10, 20});
  list[1].weight = 3;
  EXPECT_EQ(plan_sequences(list, {}).n_tokens(), 2 * (10 + 3 * 20));
}

TEST(SequencePlan, shards_are_disjoint_and_complete) {
  SequenceOptions options;
  const SequencePlan whole = plan_sequences(prompts({10, 20, 30, 40, 50}), options);
  std::vector<int64_t> ids;
  options.n_shards = 3;
  for (options.shard = 0; options.shard < 3; ++options.shard) {
    const SequencePlan part = plan_sequences(prompts({10, 20, 30, 40, 50}), options);
    EXPECT_EQ(part.sha256, whole.sha256);
    for (const Sequence& s : part.measured) ids.push_back(s.id);
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids.size(), whole.measured.size());
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

TEST(SequencePlan, shards_share_the_warm_up) {
  SequenceOptions options;
  options.warmup_passes = 5;
  const SequencePlan whole = plan_sequences(prompts({10, 20, 30, 40, 50}), options);
  int64_t n_tokens = 0;
  options.n_shards = 3;
  for (options.shard = 0; options.shard < 3; ++options.shard) {
    const SequencePlan part = plan_sequences(prompts({10, 20, 30, 40, 50}), options);
    EXPECT_LE(part.warmup.size(), 2U);
    n_tokens += tokens_of(part.warmup);
  }
  EXPECT_EQ(whole.warmup.size(), 5U);
  EXPECT_EQ(n_tokens, tokens_of(whole.warmup));
}

TEST(SequencePlan, refusals_name_the_prompt) {
  EXPECT_NE(refusal({}, {}).find("no prompt"), std::string::npos);
  EXPECT_NE(refusal(prompts({10, 0}), {}).find("prompt 'b' has no tokens"), std::string::npos);
  EXPECT_NE(refusal(prompts({3000}), {}).find("more than the maximum length 2048"), std::string::npos);
  std::vector<PromptTokens> twice = prompts({10, 10});
  twice[1].id = "a";
  EXPECT_NE(refusal(twice, {}).find("two prompts have the id 'a'"), std::string::npos);
  twice[1] = {"c", {1}, 0};
  EXPECT_NE(refusal(twice, {}).find("weight 0"), std::string::npos);
}

TEST(Batches, cuts_fall_on_multiples_of_256_positions_and_rows_are_consecutive) {
  const auto list = prompts({100, 700, 30, 513});
  SequenceOptions options;
  options.passes = 1;
  const SequencePlan plan = plan_sequences(list, options);
  for (const int64_t chunk : {1, 256, 300, 512, 1024, 100000}) {
    std::vector<int64_t> next(4, 0);
    for (const Batch& b : make_batches(plan.measured, plan.prompts, chunk, 3)) {
      EXPECT_LE(b.n_tokens(), std::max<int64_t>(256, chunk));
      EXPECT_EQ(b.positions.size(), b.ids.size() * 3);
      int64_t row = 0;
      for (size_t i = 0; i < b.sequences.size(); ++i) {
        const SequenceSpan& s = b.sequences[i];
        EXPECT_EQ(s.span.row, row);
        EXPECT_EQ(s.span.first_position % 256, 0);
        EXPECT_EQ(s.span.first_position, next[static_cast<size_t>(s.sequence)]);
        next[static_cast<size_t>(s.sequence)] += s.span.n_tokens;
        for (int64_t t = 0; t < s.span.n_tokens; ++t) {
          EXPECT_EQ(b.ids[static_cast<size_t>(row + t)], s.sequence);
          EXPECT_EQ(b.positions[static_cast<size_t>(row + t)], s.span.first_position + t);
        }
        row += s.span.n_tokens;
      }
    }
    EXPECT_EQ(next, (std::vector<int64_t>{100, 700, 30, 513})) << "chunk " << chunk;
  }
}

TEST(Batches, none_goes_beyond_a_block) {
  const auto list = prompts({100, 700, 30, 48});
  SequenceOptions options;
  options.passes = 1;
  const SequencePlan plan = plan_sequences(list, options);
  for (const Cut cut : {Cut::Anywhere, Cut::LongOnly})
    for (const int64_t block : {1, 48, 300, 5000}) {
      std::vector<int64_t> next(4, 0);
      for (const Batch& b : make_batches(plan.measured, plan.prompts, 512, 1, cut, block)) {
        int64_t n_cut = 0;
        for (const SequenceSpan& s : b.sequences) {
          const int64_t first = s.span.first_position, last = first + s.span.n_tokens - 1;
          EXPECT_EQ(first / block, last / block) << "block " << block;
          EXPECT_EQ(first, next[static_cast<size_t>(s.sequence)]);
          next[static_cast<size_t>(s.sequence)] = last + 1;
          n_cut += !s.whole && last + 1 < s.sequence_tokens;
        }
        EXPECT_LE(n_cut, 1) << "sequences with rows to keep behind this batch";
      }
      EXPECT_EQ(next, (std::vector<int64_t>{100, 700, 30, 48})) << "block " << block;
    }
  EXPECT_EQ(block_end(47, 1000, 48), 48);
  EXPECT_EQ(block_end(48, 1000, 48), 96);
  EXPECT_EQ(block_end(48, 60, 48), 60);
  EXPECT_EQ(block_end(48, 1000, 0), 1000);
}

/// A prompt of so many tokens, in which tokens [begin, end) are those of an image that is seen whole.
PromptTokens with_image(const std::string& id, int32_t n, int32_t begin, int32_t end) {
  auto rows = std::make_shared<EncoderRows>();
  rows->n_axes = 1;
  PromptTokens p{id, {}, 1};
  for (int32_t i = 0; i < n; ++i) {
    const bool image = i >= begin && i < end;
    p.ids.push_back(image ? 9 : 1);
    rows->positions.push_back(i);
    rows->row_of.push_back(image ? i - begin : -1);
    rows->last_seen.push_back(image ? end - 1 : i);
  }
  p.encoder = rows;
  return p;
}

TEST(Batches, an_image_that_is_seen_whole_is_never_cut) {
  const std::vector<PromptTokens> list = {
      {"words", std::vector<int32_t>(200, 1), 1}, with_image("a", 400, 30, 330), with_image("b", 100, 0, 100)};
  const std::vector<Sequence> sequences = {{0, 1, {{1, 0, 400}}, 400},
                                           {1, 1, {{0, 0, 200}, {1, 0, 400}, {2, 0, 100}, {2, 0, 100}}, 800},
                                           {2, 1, {{1, 0, 60}}, 60}};  // cut off in its image: a sanity sequence
  EXPECT_EQ(batch_rows(list, 256), 512);                               // for 300 rows
  EXPECT_EQ(batch_rows(list, 1000), 768);
  EXPECT_EQ(batch_rows({list[0], list[2]}, 1), 256);
  for (const int64_t chunk : {1, 512, 800, 100000}) {
    std::vector<int64_t> next(3, 0);
    int64_t ahead = 0;
    for (const Batch& b : make_batches(sequences, list, chunk, 1)) {
      EXPECT_LE(b.n_tokens(), batch_rows(list, chunk));
      for (const SequenceSpan& s : b.sequences) {
        EXPECT_EQ(s.span.first_position, next[static_cast<size_t>(s.sequence)]);
        next[static_cast<size_t>(s.sequence)] += s.span.n_tokens;
        for (int64_t t = 0; t < s.span.n_tokens && !b.last_keys.empty(); ++t) {
          const int64_t position = s.span.first_position + t, last = b.last_keys[static_cast<size_t>(s.span.row + t)];
          EXPECT_GE(last, position);
          EXPECT_LT(last, s.span.first_position + s.span.n_tokens);
          ahead += last - position;
        }
      }
    }
    EXPECT_EQ(next, (std::vector<int64_t>{400, 800, 60})) << "chunk " << chunk;
    EXPECT_EQ(ahead, 2 * (300 * 299 / 2) + 2 * (100 * 99 / 2) + 30 * 29 / 2) << "chunk " << chunk;
  }
}

TEST(Batches, ends_fall_on_the_grid_or_on_the_edge_of_an_image) {
  const std::vector<PromptTokens> list = {with_image("a", 1000, 100, 300)};
  const Sequence s = {0, 1, {{0, 0, 1000}}, 1000};
  EXPECT_EQ(batch_end(s, list, 0, 256), 100);  // not inside
  EXPECT_EQ(batch_end(s, list, 0, 299), 100);
  EXPECT_EQ(batch_end(s, list, 0, 300), 300);  // behind it, though off the grid
  EXPECT_EQ(batch_end(s, list, 0, 600), 512);
  EXPECT_EQ(batch_end(s, list, 100, 100), 100);  // no room for it
  EXPECT_EQ(batch_end(s, list, 100, 200), 300);
  EXPECT_EQ(batch_end(s, list, 100, 256), 300);
  EXPECT_EQ(batch_end(s, list, 300, 256), 512);
  EXPECT_EQ(batch_end(s, list, 512, 512), 1000);
}

TEST(Batches, a_packed_sequence_has_one_span_and_a_segment_for_each_prompt) {
  SequenceOptions options;
  options.max_length = 400;
  const SequencePlan plan = plan_sequences(prompts({100, 250}), options);
  const std::vector<Sequence> packed = {plan.measured.back()};
  const auto batches = make_batches(packed, plan.prompts, 256, 1);
  ASSERT_EQ(batches.size(), 2u);
  ASSERT_EQ(batches[0].spans.size(), 1u);
  ASSERT_EQ(batches[0].segments.size(), 2u);
  EXPECT_FALSE(batches[0].sequences[0].whole);
  const Segment& second = batches[0].segments[1];
  EXPECT_EQ(second.prompt, 1);
  EXPECT_EQ(second.prompt_offset, 0);
  EXPECT_EQ(second.first_position, 100);
  EXPECT_EQ(second.n_tokens, 156);
  EXPECT_EQ(batches[1].segments[0].prompt_offset, 156);
  EXPECT_EQ(batches[1].segments[0].row, 0);
}

}  // namespace
}  // namespace kvcal
