// Retrieval prompts: a sentence with a number, hidden in a long text, and a question about it at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prompts/prompt_set.h"

namespace kvcal {

struct NeedleOptions {
  std::vector<int64_t> lengths;                     // tokens of a whole prompt
  std::vector<int64_t> depths{0, 25, 50, 75, 100};  // percent of the text before the needle
};

/// Throws Error for lengths and depths that cannot be, are named twice, or are too many.
void check(const NeedleOptions& options);

/// The tag that the one prompt of this length and depth has. All have "needle", "needle LENGTH" and "depth DEPTH" too.
std::string needle_tag(int64_t length, int64_t depth);

struct NeedlePrompts {
  PromptSet set;           // sorted by length, then depth
  size_t n_repeating = 0;  // prompts for which the texts were too short, so that they are in it more than once
};

/// What to say of those; "" where there are none.
std::string repetition_notice(const NeedlePrompts& made);

/// One prompt for each length and depth, of at most `length` tokens and as many as words of `texts` allow: chats where
/// there is a template, else text to be continued. Each expects its number, which is not in the texts and depends on
/// them, length and depth alone. Throws Error where a length has no room for the needle, exceeds options.max_length, or
/// `texts` have no text.
NeedlePrompts make_needle_prompts(const PromptSet& texts, const NeedleOptions& needles, const Tokenizer& tokenizer,
                                  const ChatTemplate* chat_template, const TokenizeOptions& options);

}  // namespace kvcal
