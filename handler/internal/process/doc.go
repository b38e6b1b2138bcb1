// Package process starts programs for handlers: in process groups of their own,
// with a clean environment, and none of them outlives this process.
package process
