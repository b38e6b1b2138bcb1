//go:build !linux

package sqlite

import "errors"

// beFiller needs a file system of its own.
func beFiller(string) error { return errors.ErrUnsupported }
