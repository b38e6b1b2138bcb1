package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/tlscause"
)

// Conditions of PostgreSQL that this package tells apart.
const (
	stateUnique      = "23505" // unique_violation
	stateSerialize   = "40001"
	stateDeadlock    = "40P01"
	stateLockTimeout = "55P03"
	stateCanceled    = "57014" // statement_timeout, or cancelled
	stateStalePlan   = "0A000" // a prepared statement of another schema
	stateNamedTwice  = "42P05" // duplicate_prepared_statement
	stateNotNamed    = "26000" // there is no prepared statement of that name
)

// stateOf returns the SQLSTATE of err; empty if the server did not say it.
func stateOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// pooled says what to do if a session is not ours alone.
const pooled = "a pooler shares this session with others, as pgbouncer does with pool_mode=transaction: add pawl_poll_only=true to the URL, " +
	"or connect to the server itself"

// fault is the meaning of a condition, and what to do about it.
type fault struct {
	code error
	hint string
}

// faults are the meanings of conditions, and of classes of them by their first letters.
// SCHEMA stands for the name of the schema.
var faults = map[string]fault{
	"53100": {store.ErrFull, "free space on the server's disk"},
	"53300": {store.ErrUnavailable, "raise the server's max_connections, or open fewer: pawl_max_conns=N in the URL, MaxConns in Go"},
	"53200": starved,
	"53400": starved,
	// Retrying is of no use.
	stateNamedTwice:  {store.ErrUnsupported, pooled},
	stateNotNamed:    {store.ErrUnavailable, pooled},
	"28P01":          denied,
	"28000":          denied,
	"42501":          {store.ErrDenied, "grant the user what it needs in schema SCHEMA, or let its owner migrate"},
	"3D000":          {store.ErrNotFound, "create the database first: createdb NAME"},
	"42P01":          outdated,
	"3F000":          outdated,
	"42703":          outdated,
	"25006":          {store.ErrUnavailable, "the server is read-only: connect to the primary"},
	stateCanceled:    {store.ErrUnavailable, "the server did not finish in time"},
	stateLockTimeout: {store.ErrUnavailable, "a transaction holds what this call needs; end it, and repeat the call"},
	"54000":          {store.ErrTooLarge, "split the call"},
	"XX001":          {store.ErrCorrupt, "see the server's log"},
	"XX002":          {store.ErrCorrupt, "see the server's log"},
	"08":             down,
	"57P":            down,
	"58":             down,
	"40":             {store.ErrUnavailable, "repeat the call"},
}

var (
	starved  = fault{store.ErrUnavailable, "the server is short of memory or of another resource"}
	denied   = fault{store.ErrDenied, "check user, password and the server's pg_hba.conf"}
	outdated = fault{store.ErrSchema,
		"create or update the schema SCHEMA: `pawl migrate up --store postgres://…`, or AutoMigrate in Go"}
	down = fault{store.ErrUnavailable, "is the server starting, stopping or failing over?"}
)

func faultOf(state, schema string) fault {
	for n := len(state); n > 1; n-- {
		if f, ok := faults[state[:n]]; ok {
			f.hint = strings.ReplaceAll(f.hint, "SCHEMA", schema)
			return f
		}
	}
	return fault{}
}

// fail makes a [*store.Error] of the driver's error.
func (s *core) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*store.Error](err); ok {
		return e
	}
	if s.ctx.Err() != nil {
		return &store.Error{Op: op, Code: store.ErrClosed}
	}
	return explain(op, s.cfg.Schema, s.secret, err)
}

// explain never lets the password through: drivers quote their input.
func explain(op, schema, secret string, err error) error {
	e := &store.Error{Op: op, Err: hide(root(err), secret)}
	if cameBetween(err) {
		e.Code, e.Err, e.Hint = store.ErrUnavailable, errAnew, "others store the same ids all the time: repeat the call"
		return e
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		f := faultOf(pg.Code, schema)
		if e.Code, e.Hint = f.code, f.hint; f == denied && strings.Contains(pg.Message, "no encryption") {
			e.Hint = "the server lets this user in with TLS only: say sslmode=require in the URL; or change its pg_hba.conf"
		}
		return e
	}
	if hint := tlscause.Of(err, tlsAdvice); hint != "" {
		e.Code, e.Hint = store.ErrUnavailable, hint
		return e
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		e.Code, e.Hint = store.ErrUnavailable, "is the server running, and are host and port right?"
		return e
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		e.Code, e.Hint = store.ErrUnavailable, "check the host's name"
		return e
	}
	switch {
	case errors.Is(err, errTimeout):
		e.Code, e.Hint = store.ErrUnavailable,
			"the server did not answer in time; the outcome is unknown: repeat with the same batch id"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code = nil // the caller's own doing
		if errors.Is(err, context.DeadlineExceeded) {
			e.Code = store.ErrUnavailable
		}
	case isNetwork(err) && op == "open postgres":
		e.Code, e.Hint = store.ErrUnavailable,
			"the connection was lost: is PostgreSQL there, and does it want TLS (sslmode=require in the URL)?"
	case isNetwork(err):
		e.Code, e.Hint = store.ErrUnavailable, "the connection was lost; repeat with the same batch id"
	}
	return e
}

// tlsAdvice says what to change in the URL if TLS fails.
var tlsAdvice = tlscause.Advice{
	Authority: "name its file with sslrootcert=FILE in the URL",
	Name:      "connect by a name that it states, or check only who signed it with sslmode=verify-ca in the URL",
	Plain: "switch it on there (ssl = on), or do without in a network that you trust, with sslmode=disable in the " +
		"URL",
	Client: ": name its files with sslcert=FILE&sslkey=FILE in the URL",
}

// root is why a connection failed, without earlier tries: if TLS is optional, the driver first
// reports that the server has none. Other errors stay as they are.
func root(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return &hidden{text: pg.Error(), err: err}
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok {
		return &hidden{text: dial.Error(), err: err}
	}
	return err
}

func isNetwork(err error) bool {
	var timeout net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &timeout) || strings.Contains(err.Error(), "conn closed") || pgconn.SafeToRetry(err)
}

// secretWord is a password in a connection string that a driver quotes.
var secretWord = regexp.MustCompile(`(://[^:/@\s]*:)[^@\s]*(@)|(password\s*=\s*)(?:'[^']*'|\S+)`)

// hidden is an error whose text has no password, and nothing irrelevant.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }

// Is and As look at the hidden error; nothing prints it.
func (h *hidden) Is(target error) bool { return errors.Is(h.err, target) }
func (h *hidden) As(target any) bool   { return errors.As(h.err, target) }

// secretOf is the word to keep out of every text: the password, unless it equals one of the
// words beside it. If a driver prints all of them, leaving out only those would reveal it.
func secretOf(c *pgconn.Config) string {
	if slices.Contains([]string{c.User, c.Database, c.Host}, c.Password) {
		return ""
	}
	return c.Password
}

func hide(err error, secret string) error {
	text := secretWord.ReplaceAllString(err.Error(), "${1}${3}xxxxx${2}")
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	if text == err.Error() {
		return err
	}
	return &hidden{text: text, err: err}
}

// errTimeout is the cause of a context that this package ended.
var errTimeout = errors.New("call timed out")

func notFound(op, id string) error { return &store.Error{Op: op + " " + id, Code: store.ErrNotFound} }

func badURL(err error) error {
	hint := "it looks like postgres://user:password@host:5432/database"
	if strings.Contains(err.Error(), "failed to configure TLS") {
		hint = "sslmode is disable, prefer, require, verify-ca or verify-full; sslrootcert, sslcert and sslkey name files in PEM"
	}
	return &store.Error{
		Op: "open postgres", Code: store.ErrInvalid, Err: fmt.Errorf("read the URL: %w", hide(err, "")), Hint: hint,
	}
}
