// Grapheme clusters: what a reader takes for one character.
#pragma once

#include <functional>
#include <string_view>

namespace kvcal {

/// Calls take(cluster) for each extended grapheme cluster of valid UTF-8, in order.
void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace kvcal
