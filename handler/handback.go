package handler

import "github.com/pawl-dev/pawl"

// handBack is a release that was not requested by a program. Package dispatch
// recognises it by its method, and does not log or count it as a refusal by the
// handler.
type handBack struct{ error }

// HandBack returns an error that gives a delivery back at once, for a reason of the
// runtime itself.
func HandBack(reason string) error { return handBack{pawl.Release(0, reason)} }

func (h handBack) Unwrap() error { return h.error }

// HandBack is the method by which package dispatch recognises it.
func (handBack) HandBack() bool { return true }
