#include "planned_formats.h"

#include "base/error.h"
#include "terminal.h"

namespace kvcal {

std::optional<NamedEngine> planned_server(const std::string& text) {
  if (text.empty()) return std::nullopt;
  NamedEngine named = parse_engine(text);
  if (named.server != Engine::Vllm && named.server != Engine::Sglang)
    fail("--server " + quoted(text) + ": what caches and states it keeps is known of vllm and sglang");
  return named;
}

void print_formats(const Capacity& c) {
  constexpr size_t kIndent = 13;
  for (const FormatOffer& offer : c.offers) {
    if (offer.text.empty()) continue;
    std::string label = std::string(offer.served == Trait::No ? "no " : "") + title_of(offer.format) + ":";
    label.resize(kIndent, ' ');
    write_line(label, offer.text);
  }
}

Json formats_json(const Capacity& c) {
  Json formats = Json::object();
  for (const FormatOffer& o : c.offers)
    formats[std::string(name_of(o.format))] = {
        {"served", o.served == Trait::Unknown ? Json() : Json(o.served == Trait::Yes)}, {"text", o.text}};
  return formats;
}

}  // namespace kvcal
