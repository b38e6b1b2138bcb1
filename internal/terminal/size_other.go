//go:build !unix

package terminal

import "os"

// Columns is the width of a terminal; 0: it is unknown.
func Columns(*os.File) int { return 0 }
