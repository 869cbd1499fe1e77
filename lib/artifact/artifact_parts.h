// What the files that read and write kv-cache-scales.json have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "artifact/json_object.h"

namespace kvcal {

Json numbers(const std::vector<float>& values);
Json where_json(const ArtifactWhere& where);
Json growth_json(const ArtifactGrowth& growth);

/// A number that a float32 can hold; one that is not negative; what reads each of a list; one that may be absent.
float float_from(const Json& value, const std::string& path);
float at_least_zero(const Json& value, const std::string& path);
using ReadFloat = float (*)(const Json&, const std::string&);
std::vector<float> floats(const Object& o, const char* key, ReadFloat read);
std::optional<float> optional_float(const Object& o, const char* key, ReadFloat read);

ArtifactWhere where_from(const Object& o);
ArtifactGrowth growth_from(const Object& o);

/// The list "state_layers" (artifact_states.cpp).
Json states_json(const std::vector<ArtifactState>& states);
std::vector<ArtifactState> states_from(const Json& list);

}  // namespace kvcal
