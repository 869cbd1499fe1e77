#include "stats/further_members.h"

namespace kvcal {

Json further_members(const Json& read, const Json& known) {
  Json further = Json::object();
  for (const auto& member : read.items())
    if (!known.contains(member.key())) further[member.key()] = member.value();
  return further;
}

void add_further(const Json& further, Json& written) {
  for (const auto& member : further.items())
    if (!written.contains(member.key())) written[member.key()] = member.value();
}

}  // namespace kvcal
