package postgres

import (
	"cmp"
	"errors"
	"io/fs"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Config says which data to open. The zero value of every field except URL is the
// default.
type Config struct {
	// URL is postgres://user:password@host:port/database?options, or any
	// connection string that pgx understands. The password is never shown.
	URL string
	// Schema is where the tables are; "pawl" by default. A store has a schema for
	// itself.
	Schema string
	// MaxConns is how many connections the store opens at most, from 4; 12 by
	// default. One listens, one extends leases, the others are shared by appends
	// and look-ups on one side, claims and settles on the other. The process that
	// does the chores has one more while it vacuums, for a moment every 10 s; see
	// [Config.NoChores].
	MaxConns int
	// AutoMigrate applies missing migrations at Open.
	AutoMigrate bool
	// Look leaves what is due to other processes: look-ups show a lease that is over as it is.
	Look bool
	// NoCheck opens a store whose schema is missing or of another version: to
	// migrate it.
	NoCheck bool
	// PollOnly avoids all session state: no LISTEN, no prepared statements, no settings
	// beyond a transaction. It is for poolers that share sessions between transactions.
	// Waiting claimers notice new work by polling, after at most [Config.PollEvery].
	PollOnly bool
	// PollEvery is how often a listener looks for work while nothing notifies it;
	// 100 ms by default.
	PollEvery time.Duration
	// CallTimeout bounds every call, in addition to its context; 30 s by default.
	CallTimeout time.Duration
	// NoChores leaves vacuuming and purging to other processes.
	NoChores bool
	// Skew, for tests, is added to the server's clock wherever time matters. Due messages are
	// then found at once, not within a second.
	Skew func() time.Duration
}

const (
	defaultSchema      = "pawl"
	defaultMaxConns    = 12
	minConns           = 4
	defaultPollEvery   = 100 * time.Millisecond
	defaultCallTimeout = 30 * time.Second
)

// schemaName is narrow, so that the name needs no quoting in hints.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// Check reports what is wrong with a configuration, as far as that shows without its server, and without the files that
// its URL names.
func (c Config) Check() error {
	if _, err := c.withDefaults(); err != nil {
		return err
	}
	if _, err := pgx.ParseConfig(c.URL); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return badURL(err)
	}
	return nil
}

func (c Config) withDefaults() (Config, error) {
	c.Schema = cmp.Or(c.Schema, defaultSchema)
	c.MaxConns = cmp.Or(c.MaxConns, defaultMaxConns)
	c.PollEvery = cmp.Or(c.PollEvery, defaultPollEvery)
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	var faults pawl.Faults
	faults.If(c.URL == "", "no URL")
	faults.If(!schemaName.MatchString(c.Schema), "schema %q is not made of at most 48 of a-z 0-9 _", c.Schema)
	faults.If(c.MaxConns < minConns, "%d connections; at least %d are needed", c.MaxConns, minConns)
	faults.If(c.PollEvery < time.Millisecond || c.CallTimeout < time.Millisecond,
		"poll every %v, call timeout %v; both are at least 1ms", c.PollEvery, c.CallTimeout)
	if err := faults.Err(); err != nil {
		return c, &store.Error{Op: "open postgres", Code: store.ErrInvalid, Err: err}
	}
	return c, nil
}
