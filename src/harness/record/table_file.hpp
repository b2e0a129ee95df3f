#pragma once

// Tables beside a record file: what is too long for a line of it. The record names each with its hash.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/measure/results/result.hpp"

namespace isthmus::harness {

/// What a record says of a table: an entry of its `tables`.
struct TableFile {
  std::string name;
  std::vector<std::string> columns;
  std::string file;  ///< path from the folder of the record file
  std::size_t rows = 0;
  std::string sha256;  ///< of the file as it lies there, 64 hexadecimal digits
};

/// Writes a table as gzip-compressed CSV into the folder that is called as the record file, with .tables for .jsonl.
/// The file's name begins with `stem`; its hash is in it, so that no table ever takes the place of another. It appears
/// whole or not at all. Throws RecordError where it cannot be written, std::invalid_argument for what is no table.
TableFile write_table(const Table& table, const std::filesystem::path& record_file, std::string_view stem);

}  // namespace isthmus::harness
