// Package operate has the operations of operators: explain a message, inspect topics,
// workers and dead letters, replay, discard, edit, import, and read the audit. The
// command line, the console and the API share it, and print the JSON that it returns.
package operate
