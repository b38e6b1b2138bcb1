// Package statesync keeps values that processes share: typed, versioned, by topic and key, in the state of any store
// that has one (memory, SQLite, PostgreSQL, Kafka).
//
// A version is the store's, never a clock's. Versions of a key rise, also over its removal. [Topic.Put] and
// [Topic.Delete] may ask for the version that they replace, and every version stays in [Topic.History]: it is written
// there once it is stored, and at the latest before its successor is, so that no crash leaves a gap.
//
// # Watching
//
// [Topic.Watch] yields what is there, then every change. It reads what was written after the last version that it has
// seen, twice a second, and everything each 30 seconds. A watcher that lags is told the newest value, and how many
// it skipped. An older version never replaces a newer one, in whatever order they are read, unless
// [Config.AllowRollback] says that the store may go back.
//
// A value that cannot be decoded is ignored, counted and logged: the value before it stays. [Topic.Refused] does the
// same for values that can be decoded and that a reader does not take. [Topic.Figures] has the counts.
package statesync
