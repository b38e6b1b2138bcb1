// Package guide holds the code of docs/go.md as examples that are compiled and run.
package guide
