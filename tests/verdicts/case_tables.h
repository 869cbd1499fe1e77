// The tables of a case from its few words of JSON: equal to the last bit to what tests/reference/verdicts/tables.py
// makes of them, which describes the recipe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

struct CaseTable {
  int64_t rows = 0, columns = 0;
  std::vector<uint16_t> codes;  // bfloat16, [rows, columns]
};
using CaseTables = std::map<std::string, CaseTable>;

CaseTables build_tables(const Json& the_case);

/// SHA-256 of the codes of all tables, in the order of their streams.
std::string fingerprint(const CaseTables& tables);

std::vector<PromptTokens> prompts_of_case(const Json& the_case);

}  // namespace kvcal
