// Package crash kills the built binary in every way that a machine knows, and
// judges from outside whether it kept its word: by the journals of its workers
// (e2e/worker), by what it prints, and by the operating system's figures. It has
// tests only, for Linux.
//
// The tests are short by default. PAWL_SOAK=1 makes the chaos last three minutes,
// PAWL_SOAK=1h an hour; PAWL_E2E_SEED repeats a run's decisions; PAWL_E2E_PAWL
// names a binary to be judged instead of the one built from this tree; PAWL_BARS=1
// holds the figures of speed to their bars: `make nightly` does so.
package crash
