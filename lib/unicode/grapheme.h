// Grapheme clusters: what a reader takes for one character.
//
// Known limit: utf8proc knows neither the conjuncts of Indic scripts (rule GB9c) nor which pictographs Unicode 17 still
// joins. For what is asked here that matters only where the last letter of a conjunct, or a pictograph behind a joiner,
// is followed by a mark of another script and has a replacement.
#pragma once

#include <functional>
#include <string_view>

namespace kvcal {

/// Calls take(cluster) for each extended grapheme cluster of valid UTF-8, in order.
void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& take);

}  // namespace kvcal
