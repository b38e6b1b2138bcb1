//go:build !linux

package sqlite

// notice would tell of writes to a file; where it is nil, the file is looked at
// from time to time.
func notice(string) (<-chan struct{}, func()) { return nil, nil }
