// Package operate is what operators do: explain a message, look at topics, workers
// and dead letters, replay, discard, edit, import, and read the audit. The command
// line, the console and the API share it, and the JSON that it returns is theirs.
package operate
