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
	DefaultShards    = 8                // queues
	DefaultCloseWait = 10 * time.Second // see [Config.CloseWait]
)

// Config says how messages are copied. The zero value copies the topics that the state
// of the primary names.
type Config struct {
	// All copies every topic that has no stage of its own.
	All bool
	// Transform, if not nil, changes a copy before it is stored, or leaves it out. It
	// must not change what the body, headers and key point to, and must be safe for
	// concurrent use. A copy that it leaves out counts as [Stats].Skipped.
	Transform func(m *pawl.Message) (keep bool)
	// Count and Bytes bound what waits to be copied; 0 is [DefaultCount] and
	// [DefaultBytes].
	Count, Bytes int
	// Shards is how many queues there are, each with a call of its own to the mirrored
	// store; 0 is [DefaultShards].
	Shards int
	// CloseWait is for how long Close waits for copies to be written; 0 is
	// [DefaultCloseWait].
	CloseWait time.Duration
	// Name names this process in the state of the primary, where it reports its copying;
	// the command that moves a topic waits for that. Names must be unique. Empty is a
	// random one.
	Name string
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
	for name, n := range map[string]int{"count": c.Count, "bytes": c.Bytes, "shards": c.Shards} {
		faults.If(n < 0, "%s %d is negative", name, n)
	}
	faults.If(c.CloseWait < 0, "close wait %v is negative", c.CloseWait)
	faults.If(len(c.Name) > maxName, "name %q has more than %d bytes", c.Name, maxName)
	if err := faults.Err(); err != nil {
		return c, &store.Error{Op: "open mirror", Code: store.ErrInvalid, Err: err}
	}
	c.Count, c.Bytes = cmp.Or(c.Count, DefaultCount), cmp.Or(c.Bytes, DefaultBytes)
	c.Shards, c.CloseWait = cmp.Or(c.Shards, DefaultShards), cmp.Or(c.CloseWait, DefaultCloseWait)
	c.Name = cmp.Or(c.Name, pawl.NewID())
	return c, nil
}
