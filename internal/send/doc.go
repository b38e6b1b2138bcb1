// Package send appends messages, one by one or as a stream of lines of JSON, and
// retries what a store could not accept.
package send
