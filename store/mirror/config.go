package mirror

import (
	"cmp"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Defaults of a [Config].
const (
	DefaultCount     = 20_000           // copies that wait
	DefaultBytes     = 64 << 20         // bytes of copies that wait
	DefaultCloseWait = 10 * time.Second // see [Config.CloseWait]
)

// Config says how messages are copied. The zero value copies the topics that the state
// of the primary names.
type Config struct {
	// All copies every topic that has no stage of its own.
	All bool
	// Count and Bytes bound what waits to be copied; 0 is [DefaultCount] and
	// [DefaultBytes].
	Count, Bytes int
	// CloseWait is for how long Close waits for copies to be written; 0 is
	// [DefaultCloseWait].
	CloseWait time.Duration
	// Tx lists the types of transactions, beside *sql.Tx, in which a program appends:
	// AppendTx of a type that is not listed is the primary's own, which ignores stages,
	// and continues to store there when the topic has moved.
	Tx []Tx
	// Report is called with problems of copies, at most once a second; it may be nil.
	// It must not block.
	Report func(error)
}

// complete fills in the defaults and reports everything that is wrong at once.
func (c Config) complete() (Config, error) {
	var faults pawl.Faults
	for name, n := range map[string]int{"count": c.Count, "bytes": c.Bytes} {
		faults.If(n < 0, "%s %d is negative", name, n)
	}
	faults.If(c.CloseWait < 0, "close wait %v is negative", c.CloseWait)
	if err := faults.Err(); err != nil {
		return c, &store.Error{Op: "open mirror", Code: store.ErrInvalid, Err: err}
	}
	c.Count, c.Bytes = cmp.Or(c.Count, DefaultCount), cmp.Or(c.Bytes, DefaultBytes)
	c.CloseWait = cmp.Or(c.CloseWait, DefaultCloseWait)
	return c, nil
}
