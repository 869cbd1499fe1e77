// Compares two scale files: what changed, and whether it matters.
//
// FP8 is floating point, so a scale matters only where it clips or flushes. What was measured for A is held against the
// scale of B, and the reverse: a scale whose range (scale · max) is below the other's largest magnitude clips it; in
// FP8 one whose range is up to 16 times larger costs nothing, beyond that small values sink below the normal numbers.
// INT8 loses a bit with every factor of two, so that there 2 is the limit. A scale of pow2 up to 1.0 was found to lose
// nothing, however large its range is.
#pragma once

#include <string>
#include <vector>

#include "artifact/artifact.h"

namespace kvcal {

/// One site of a layer; where both files have scales per head, its head with the largest change.
struct SiteDifference {
  int layer = 0;
  std::string site;  // "key", "value" or "latent", "query"
  int head = -1;     // -1: the whole site
  float scale_a = 0, scale_b = 0, absmax_a = 0, absmax_b = 0;
  Assessment assessment_a, assessment_b;    // of the whole site
  double overshoot_a = 0, overshoot_b = 0;  // range of this file's scale / largest magnitude of the other file
  double change() const;                    // |scale_b / scale_a - 1|
  bool other_answer() const;                // either answer of the assessment differs
  std::string effect;                       // "": none; "B clips what A measured", "B is 20 times too large for A", ...
};

/// A member that differs. `decides`: scales of the two files cannot stand for each other.
struct MemberDifference {
  std::string member, a, b;
  bool decides = false;
};

struct ArtifactDifference {
  std::vector<MemberDifference> members;
  std::vector<SiteDifference> sites;  // all that both files have, changed or not
  /// No change of a scale above `tolerance` (0.05 = 5 %), no site with an effect or another answer, nothing that
  /// decides.
  bool within(double tolerance) const;
};

ArtifactDifference compare(const Artifact& a, const Artifact& b);

}  // namespace kvcal
