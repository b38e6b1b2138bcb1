// Package sqlstore is what the SQL stores share: how ids, keys, headers and
// outcomes look in a row, and how a schema is migrated. It knows no driver.
package sqlstore
