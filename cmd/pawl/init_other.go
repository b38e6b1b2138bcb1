//go:build !linux

package main

// asInit does nothing: there are no containers whose first process this could be.
func asInit() (code int, ran bool) { return 0, false }
