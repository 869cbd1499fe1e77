// For tests of rules: the tree, read once, and findings as failures.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/rules.h"

namespace kvcal::rules {

inline const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = read_tree(KVCAL_SOURCE_DIR);
  return files;
}

inline void expect_none(const Findings& findings) {
  for (const std::string& finding : findings) ADD_FAILURE() << finding;
}

}  // namespace kvcal::rules
