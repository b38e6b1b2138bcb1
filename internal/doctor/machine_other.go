//go:build !unix

package doctor

import "errors"

func freeSpace(string) (uint64, error) { return 0, errors.New("not known on this system") }

func openFiles() (uint64, error) { return 0, errors.New("not known on this system") }

func writable(string) error { return nil }
