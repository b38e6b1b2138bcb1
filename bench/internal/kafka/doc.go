// Package kafka compares ways to read a topic, and ways to write one: Pawl, its
// peers, and the bare client as the ceiling. All read the same records, which
// were written before, with the same fetches, and every arm but the ceiling
// checks each record: once, and in the order of its key.
package kafka
