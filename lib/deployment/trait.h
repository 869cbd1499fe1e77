// What is known of something that is so or not.
#pragma once

#include <cstdint>

namespace kvcal {

enum class Trait : uint8_t { Unknown, No, Yes };

constexpr Trait trait_of(bool yes) { return yes ? Trait::Yes : Trait::No; }

}  // namespace kvcal
