package handler

import "github.com/pawl-dev/pawl"

// handBack is a release that no program has asked for. Package dispatch knows it by its
// method: it is neither logged nor counted as if a handler had refused the work.
type handBack struct{ error }

// HandBack returns what gives a delivery back, at once, for a reason of our own.
func HandBack(reason string) error { return handBack{pawl.Release(0, reason)} }

func (h handBack) Unwrap() error { return h.error }

// HandBack implements what package dispatch asks for.
func (handBack) HandBack() bool { return true }
