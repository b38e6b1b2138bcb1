package handler

import (
	"errors"
	"slices"
	"syscall"
)

// Lacks reports whether an error says that this machine has no files or memory left, of which no message can help.
func Lacks(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM},
		func(of error) bool { return errors.Is(err, of) })
}
