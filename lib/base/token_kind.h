// What a token of a prompt is: who says it, and in which turn of a chat.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvcal {

/// Other: of a chat, where the message that a token belongs to cannot be told. Text: of a prompt that is no chat.
/// Image: an encoder made its row.
enum class TokenRole : uint8_t { Other, Text, System, User, Assistant, Tool, Image };
inline constexpr std::array<std::string_view, 7> kTokenRoles = {"other",     "text", "system", "user",
                                                                "assistant", "tool", "image"};

/// 0: before the first message of a user, and of what is no chat; 1, 2, 3; 4 and later.
inline constexpr std::array<std::string_view, 5> kTokenTurns = {"none", "1", "2", "3", "4+"};

/// Role and turn as one index below kTokenKinds.
inline constexpr size_t kTokenKinds = kTokenRoles.size() * kTokenTurns.size();
constexpr uint8_t token_kind(TokenRole role, size_t turn = 0) {
  const size_t last = kTokenTurns.size() - 1;
  return static_cast<uint8_t>(static_cast<size_t>(role) * kTokenTurns.size() + (turn < last ? turn : last));
}
constexpr size_t role_of_kind(size_t kind) { return kind / kTokenTurns.size(); }
constexpr size_t turn_of_kind(size_t kind) { return kind % kTokenTurns.size(); }

}  // namespace kvcal
