// Package app puts the parts together: it alone knows which backends there are,
// and what a worker, a stream of messages to append, a replay or a benchmark is
// made of. The command line and the daemon are its users.
package app
