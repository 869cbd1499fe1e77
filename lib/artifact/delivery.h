// What depends on whether a server loads the scales: one that loads none has 1.0 everywhere.
#pragma once

#include <string>
#include <vector>

#include "artifact/artifact.h"

namespace kvcal {

/// A site with a scale, of its own or of a head or channel, that is not 1.0.
struct DepartingSite {
  const ArtifactLayer* layer;
  NamedSite site;
};

/// Of all layers, that of the MTP layer included. `queries`: of these, else of what the cache holds.
std::vector<DepartingSite> departing_sites(const Artifact& artifact, bool queries);

/// Layers whose key, value or latent row is assessed as keep16, ascending.
std::vector<int> keep16_layers(const Artifact& artifact);

/// Whether these are all: then no layer is left for the format.
bool keeps_whole_cache(const Artifact& artifact);

/// Of layers that are fine those where rounding is felt, at half of its limit, the four most changed at most,
/// ascending. That does not order layers by what they cost in answers, but it is where one would look first.
std::vector<int64_t> most_changed_layers(const Artifact& artifact);

/// Whether everything that the cache holds has scale 1.0: then the checkpoint serves as well without scales.
bool serves_as_it_is(const Artifact& artifact);

/// "layer 3 key (4: 1.0 would clip), layer 7 value (2 of 8 heads: 1.0 would lose small values), 5 more"
std::string text_of(const Artifact& artifact, const std::vector<DepartingSite>& sites);

/// One sentence, for the user: what has to reach the server, of policies that seek 1.0 or where all scales are 1.0;
/// else "".
std::string delivery_text(const Artifact& artifact);

}  // namespace kvcal
