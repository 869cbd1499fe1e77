// The shapes that records of public sets and of request logs have.
//
//   {"messages" | "conversations" | "conversation": [turn...], "system"?, "tools"?}
//   {"prompt": [turn...], "completion": [turn...]?}                                  as trainers write preferences
//   {"instruction": "...", "input" | "context"?: "...", "output" | "response"?: "...",
//    "history"?: [["...", "..."]...], "system"?}                                    Alpaca, Dolly
//   {"body" | "request": {one of these}}                                             batch files and logs of requests
// A turn is {"role", "content", ...}, {"from", "value"}, a mixture of both, or {"user": "...", "assistant": "..."}.
#pragma once

#include <optional>

#include "base/json.h"

namespace kvcal {

/// The record itself, or the request in it where it has no content of its own.
const Json& request_in(const Json& record);

/// What the record of a chat says, as {"role", "content", ...} with the roles that templates know; nothing where it is
/// no chat. Throws Error for a turn that cannot be read.
std::optional<Json> chat_in(const Json& record);

/// Its "tools", which some sets write as a text of JSON; null for none.
Json tools_in(const Json& record);

}  // namespace kvcal
