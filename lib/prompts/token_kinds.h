// What each token of a chat is: whose message it belongs to, and in which turn.
//
// Where a message ends in the rendered text is found by rendering the messages up to it: what comes out must be the
// beginning of the whole text. Where the template renders a message otherwise when it is the last (thinking that is
// dropped from earlier turns), messages are told apart by their contents, each of which must be there once. Where
// neither finds the end, or a token lies across it, the tokens around it are TokenRole::Other. What a template puts
// around messages belongs to one of its neighbors: text before the first message to that, the header of a reply that
// is to come to the assistant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prompts/chat_template.h"

namespace kvcal {

class Tokenizer;

struct ChatTokenKinds {
  std::vector<uint8_t> of_tokens;  // base/token_kind.h
  bool complete = true;            // false: too many messages to look at all
};

/// Of `ids`, which are `text`, which is `input` rendered. Never throws Error: what cannot be told is Other.
ChatTokenKinds chat_token_kinds(const ChatInput& input, const std::string& text, const std::vector<int32_t>& ids,
                                const ChatTemplate& chat_template, const Tokenizer& tokenizer);

}  // namespace kvcal
