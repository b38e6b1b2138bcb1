// Package bench measures a store in three ways: appending, working, and both at
// once.
package bench
