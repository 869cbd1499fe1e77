// What the inputs together say of the server run: each fact with its value and where it is from, or what would settle
// it.
#pragma once

#include "base/json.h"
#include "base/lines.h"
#include "doctor/facts.h"

namespace kvcal {

struct FactRow {
  std::string name;
  std::string value;  // "": not known
  std::string from;   // where it was read, or what would settle it
};

std::vector<FactRow> fact_rows(const Facts& facts);
Lines facts_text(const Facts& facts);
Json facts_json(const Facts& facts);

}  // namespace kvcal
