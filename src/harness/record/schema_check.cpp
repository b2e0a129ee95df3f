#include "harness/record/schema_check.hpp"

#include <regex.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace isthmus::harness {

namespace {

using nlohmann::json;

constexpr std::array kAnnotations = {"$schema", "$id", "title", "description", "default", "examples"};
constexpr std::array kKeywords = {"type",     "const",      "enum",
                                  "pattern",  "minLength",  "minimum",
                                  "maximum",  "oneOf",      "required",
                                  "items",    "properties", "additionalProperties",
                                  "minItems", "maxItems",   "exclusiveMinimum"};

bool knows(const auto& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Extended regular expression. The C library matches it without recursion, in time linear in the text.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    if (regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
      throw std::invalid_argument("the schema's pattern '" + text + "' is not an extended regular expression");
  }
  ~Pattern() { regfree(&compiled_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  bool matches(const std::string& text) const {
    regmatch_t whole{0, static_cast<regoff_t>(text.size())};  // so that a zero byte does not end the text
    return regexec(&compiled_, text.c_str(), 1, &whole, REG_STARTEND) == 0;
  }

 private:
  regex_t compiled_{};
};

/// Patterns of a schema, each compiled once.
using Patterns = std::map<std::string, std::unique_ptr<const Pattern>, std::less<>>;

constexpr std::size_t kLongestMatched = 4096;  // maximum bytes of a string with a pattern, such as a name or a time

/// Walks the schema once and refuses keywords that check() would ignore.
void require_supported(const json& schema, const std::string& where, Patterns& patterns) {
  if (schema.is_boolean()) return;
  if (!schema.is_object()) throw std::invalid_argument("the schema at " + where + " is not an object");
  for (const auto& [keyword, value] : schema.items()) {
    if (!knows(kAnnotations, keyword) && !knows(kKeywords, keyword))
      throw std::invalid_argument("the schema at " + where + " uses '" + keyword + "', which is not supported");
    const std::string inner = where + "/" + keyword;
    if (keyword == "pattern") {
      const auto text = value.get<std::string>();
      if (!patterns.contains(text)) patterns[text] = std::make_unique<const Pattern>(text);
    }
    if (keyword == "properties") {
      for (const auto& [property, subschema] : value.items())
        require_supported(subschema, inner + "/" + property, patterns);
    } else if (keyword == "items" || keyword == "additionalProperties") {
      require_supported(value, inner, patterns);
    } else if (keyword == "oneOf") {
      for (const auto& subschema : value) require_supported(subschema, inner, patterns);
    }
  }
}

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  throw std::invalid_argument("the schema names a type '" + type + "', which does not exist");
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

class Checker {
 public:
  Checker(const Patterns& patterns, std::vector<std::string>& found) : patterns_(patterns), found_(found) {}

  void check(const json& schema, const json& value, const std::string& where) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) report(where, "must be absent");
      return;
    }
    check_any(schema, value, where);
    if (value.is_string()) check_string(schema, value.get_ref<const std::string&>(), where);
    if (value.is_number()) check_number(schema, value, where);
    if (value.is_array()) check_array(schema, value, where);
    if (value.is_object()) check_object(schema, value, where);
  }

 private:
  void report(const std::string& where, const std::string& what) {
    found_.push_back((where.empty() ? "the document" : where) + " " + what);
  }

  void check_any(const json& schema, const json& value, const std::string& where) {
    if (const auto type = schema.find("type"); type != schema.end()) {
      const bool fits = type->is_string() ? has_type(value, type->get<std::string>())
                                          : std::any_of(type->begin(), type->end(), [&](const json& name) {
                                              return has_type(value, name.get<std::string>());
                                            });
      if (!fits) report(where, "is " + shown(value) + ", which is not of type " + type->dump());
    }
    if (const auto constant = schema.find("const"); constant != schema.end() && value != *constant)
      report(where, "is " + shown(value) + " instead of " + shown(*constant));
    if (const auto list = schema.find("enum");
        list != schema.end() && std::find(list->begin(), list->end(), value) == list->end())
      report(where, "is " + shown(value) + ", which is not one of " + list->dump());
    if (const auto choices = schema.find("oneOf"); choices != schema.end()) {
      int fitting = 0;
      for (const auto& choice : *choices) {
        std::vector<std::string> ignored;
        Checker(patterns_, ignored).check(choice, value, where);
        if (ignored.empty()) ++fitting;
      }
      if (fitting != 1)
        report(where,
               "is " + shown(value) + ", which matches " + std::to_string(fitting) + " of its alternatives, not one");
    }
  }

  void check_string(const json& schema, const std::string& value, const std::string& where) {
    if (const auto found = schema.find("pattern"); found != schema.end()) {
      const auto& pattern = found->get_ref<const std::string&>();
      if (value.size() > kLongestMatched || !patterns_.find(pattern)->second->matches(value))
        report(where, "is " + shown(value) + ", which does not match " + pattern);
    }
    if (const auto length = schema.find("minLength");
        length != schema.end() && value.size() < length->get<std::size_t>())
      report(where, "is " + shown(value) + ", which is shorter than " + length->dump());
  }

  void check_number(const json& schema, const json& value, const std::string& where) {
    const auto bound = [&](const char* keyword, auto violates, const char* what) {
      const auto limit = schema.find(keyword);
      if (limit != schema.end() && violates(value, *limit)) report(where, "is " + shown(value) + what + limit->dump());
    };
    bound("minimum", [](const json& v, const json& l) { return v < l; }, ", below ");
    bound("maximum", [](const json& v, const json& l) { return v > l; }, ", above ");
    bound("exclusiveMinimum", [](const json& v, const json& l) { return v <= l; }, ", not above ");
  }

  void check_array(const json& schema, const json& value, const std::string& where) {
    if (const auto least = schema.find("minItems"); least != schema.end() && value.size() < least->get<std::size_t>())
      report(where, "has " + std::to_string(value.size()) + " items, fewer than " + least->dump());
    if (const auto most = schema.find("maxItems"); most != schema.end() && value.size() > most->get<std::size_t>())
      report(where, "has " + std::to_string(value.size()) + " items, more than " + most->dump());
    if (const auto items = schema.find("items"); items != schema.end()) {
      for (std::size_t i = 0; i < value.size(); ++i) check(*items, value[i], where + "[" + std::to_string(i) + "]");
    }
  }

  void check_object(const json& schema, const json& value, const std::string& where) {
    if (const auto required = schema.find("required"); required != schema.end()) {
      for (const auto& name : *required) {
        if (!value.contains(name.get_ref<const std::string&>())) report(where, "lacks " + name.get<std::string>());
      }
    }
    const auto properties = schema.find("properties");
    const auto additional = schema.find("additionalProperties");
    for (const auto& [name, member] : value.items()) {
      const std::string inner = where.empty() ? name : where + "." + name;
      if (properties != schema.end() && properties->contains(name)) {
        check((*properties)[name], member, inner);
      } else if (additional != schema.end()) {
        if (additional->is_boolean() && !additional->get<bool>())
          report(inner, "is not in the schema");
        else
          check(*additional, member, inner);
      }
    }
  }

  const Patterns& patterns_;
  std::vector<std::string>& found_;
};

}  // namespace

struct SchemaCheck::Schema {
  json document;
  Patterns patterns;
};

SchemaCheck::SchemaCheck(std::string_view schema) : schema_(new Schema{json::parse(schema), {}}) {
  require_supported(schema_->document, "#", schema_->patterns);
}

SchemaCheck::~SchemaCheck() = default;

std::vector<std::string> SchemaCheck::violations(const json& document) const {
  std::vector<std::string> found;
  Checker(schema_->patterns, found).check(schema_->document, document, "");
  return found;
}

const SchemaCheck& record_schema_check() {
  static const SchemaCheck check(record_schema());
  return check;
}

}  // namespace isthmus::harness
