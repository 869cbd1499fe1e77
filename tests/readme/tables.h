// Tables of the README that are made from the code and the goldens, so that they cannot say what is not so.
#pragma once

#include <span>
#include <string>

namespace kvcal::readme {

/// Stands in the README between the lines "<!-- table of NAME -->" and "<!-- end of table of NAME -->".
struct Table {
  const char* name;
  std::string (*make)();  // Markdown, ending in a newline
};

std::span<const Table> tables();

std::string table_of_models();
std::string table_of_servers();
std::string table_of_weight_formats();

/// The text with every table as it is made now. Throws Error when a marker is missing.
std::string with_tables(std::string text);

}  // namespace kvcal::readme
