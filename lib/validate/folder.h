// A checkpoint folder under test, and the groups of checks of its KV scales. Only validate_folder.cpp calls them.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "artifact/artifact.h"
#include "checkpoint/checkpoint.h"
#include "servers/served_scales.h"
#include "servers/stored_scales.h"
#include "stats/run_record.h"
#include "validate/finding.h"

namespace kvcal {

struct FolderUnderTest {
  const Checkpoint& checkpoint;
  const ModelSpec& spec;
  StoredScales stored;
  std::vector<ServedScales> served;  // by server that was named

  std::string path_of(const std::string& file) const { return (checkpoint.folder() / file).string(); }
};

/// What was measured, for a comparison: of the artifact, and the statistics where those were given.
struct Reference {
  Artifact artifact;
  std::optional<Statistics> statistics;
};

/// Each scale by itself and among the others: finite, positive, of a shape and dtype that servers read; plausible,
/// unless it is known that it was measured.
void check_stored_numbers(const FolderUnderTest& f, bool measured, Report& report);

/// The set of layers: each cache has one key and one value, nothing else has any.
void check_stored_layers(const FolderUnderTest& f, Report& report);

/// config.json and the index.
void check_declaration(const FolderUnderTest& f, Report& report);

/// Keys whose bias alone is too large for FP8; reads those tensors.
void check_key_bias(const FolderUnderTest& f, Report& report);

/// Scales per head against the ranks that will share the heads.
void check_ranks(const FolderUnderTest& f, int64_t n_ranks, Report& report);

/// What each server makes of it.
void check_servers(const FolderUnderTest& f, Report& report);

/// Against what was measured.
void check_against(const FolderUnderTest& f, const Reference& reference, Report& report);

}  // namespace kvcal
