//go:build !unix || solaris || aix

package sqlite

import "os"

const (
	shared    = 1
	exclusive = 2
)

// Without flock, waiting processes cannot announce themselves.

func lockFile(_ *os.File, how int) bool { return how == exclusive }
func unlockFile(*os.File)               {}
