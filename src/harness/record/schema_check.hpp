#pragma once

// Validator for the part of JSON Schema 2020-12 that schema/record.schema.json uses. An unknown keyword is refused when
// the schema is read, so that no part of a schema is silently ignored.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

class SchemaCheck {
 public:
  /// Throws std::invalid_argument for a schema with an unsupported keyword or form.
  explicit SchemaCheck(std::string_view schema);
  ~SchemaCheck();
  SchemaCheck(const SchemaCheck&) = delete;
  SchemaCheck& operator=(const SchemaCheck&) = delete;

  /// Returns one sentence per violation, with its position in the document; empty if the document is valid.
  std::vector<std::string> violations(const nlohmann::json& document) const;

 private:
  struct Schema;
  std::unique_ptr<Schema> schema_;
};

/// Returns schema/record.schema.json as it was when this binary was built.
std::string_view record_schema() noexcept;
const SchemaCheck& record_schema_check();

}  // namespace isthmus::harness
