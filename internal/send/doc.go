// Package send appends messages, one by one or as a stream of lines of JSON, and
// repeats what a store could not take.
package send
