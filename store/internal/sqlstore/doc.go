// Package sqlstore has what the SQL stores share: the encoding of ids, keys, headers
// and outcomes in rows, and the migration of schemas; and the records of attempts, which
// the store in memory makes too. It depends on no driver.
package sqlstore
