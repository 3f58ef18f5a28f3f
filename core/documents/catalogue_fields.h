// The fields of the catalogue document. See fields.h; internal to core/documents.
#pragma once

#include "core/documents/catalogue.h"
#include "core/documents/fields.h"

namespace millrace::text {

template <>
struct Fields<CatalogueValue> {
  static void visit(auto& v) {
    v.field("name", &CatalogueValue::name, Presence::kRequired, Words::kName);
    v.field("value", &CatalogueValue::value, Presence::kRequired, kFinite);
    v.field("unit", &CatalogueValue::unit, Presence::kRequired, Words::kGiven);
    v.field("origin", &CatalogueValue::origin, Presence::kRequired, Words::kGiven);
    v.field("note", &CatalogueValue::note, Presence::kDefaulted, Words::kFree);
  }
  static void check(const CatalogueValue& value, const Path& where);
};

template <>
struct Fields<CatalogueDevice> {
  static void visit(auto& v) {
    v.field("name", &CatalogueDevice::name, Presence::kRequired, Words::kGiven);
    v.list("short_names", &CatalogueDevice::short_names, Words::kName);
    v.field("kind", &CatalogueDevice::kind, Presence::kRequired, Words::kName);
    v.field("summary", &CatalogueDevice::summary, Presence::kDefaulted, Words::kFree);
    v.list("value", &CatalogueDevice::values);
  }
  static void check(const CatalogueDevice& device, const Path& where);
};

template <>
struct Fields<Catalogue> {
  static void visit(auto& v) { v.list("devices", &Catalogue::devices); }
  static void check(const Catalogue& catalogue, const Path& where);
};

}  // namespace millrace::text
