// Package sqlstore has what the SQL stores share: the encoding of ids, keys, headers
// and outcomes in rows, and the migration of schemas. It depends on no driver.
package sqlstore
