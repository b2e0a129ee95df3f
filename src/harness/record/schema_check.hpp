#pragma once

// Validates JSON by the part of JSON Schema 2020-12 that schema/record.schema.json uses. A keyword it does not know is
// refused when the schema is read, so nothing in a schema goes unchecked silently.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

class SchemaCheck {
 public:
  /// Throws std::invalid_argument for a schema with a keyword or a form that is not supported.
  explicit SchemaCheck(std::string_view schema);
  ~SchemaCheck();
  SchemaCheck(const SchemaCheck&) = delete;
  SchemaCheck& operator=(const SchemaCheck&) = delete;

  /// One sentence per violation, with the place in the document; empty when it is valid.
  std::vector<std::string> violations(const nlohmann::json& document) const;

 private:
  struct Schema;
  std::unique_ptr<Schema> schema_;
};

/// schema/record.schema.json as it was when this binary was built.
std::string_view record_schema() noexcept;
const SchemaCheck& record_schema_check();

}  // namespace isthmus::harness
