//go:build !unix

package sqlite

// read is not there: nothing is noticed.
func (p *piece) read([]byte) (n int, size int64, ok bool) { return 0, 0, false }

// openElsewhere is not noticed.
func (c *inside) openElsewhere() bool { return false }
