package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	driversqlite "modernc.org/sqlite"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/bound"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Synchronous is how far SQLite goes to make a commit durable.
type Synchronous string

// The settings. All keep the file whole and survive the death of a process.
const (
	// Full synchronises the log with every commit: what a call returned survives
	// the loss of power. The default.
	Full Synchronous = "FULL"
	// Normal leaves the log to the operating system between checkpoints: the loss
	// of power may take the last moments with it.
	Normal Synchronous = "NORMAL"
	// Extra is Full, and synchronises the folder too where a journal is deleted.
	Extra Synchronous = "EXTRA"
)

// Config says what to open, and how.
type Config struct {
	// Path is the database file. It is created if it is not there; its folder is
	// not. Beside it SQLite keeps PATH-wal and PATH-shm, and the store PATH-turn.
	Path string
	// Synchronous is [Full] if empty.
	Synchronous Synchronous
	// Cache is how many KiB of the file the store keeps in memory to write; 0 is 16,000.
	Cache int
	// ReadOnly opens an existing file for reading only: the methods that change
	// something fail with [store.ErrDenied].
	ReadOnly bool
	// NoCheck, with ReadOnly, opens a file whose schema is missing or of another
	// version: to look at its [Store.Migrations].
	NoCheck bool
	// Wait is how long a call waits while another process writes, before it fails
	// with [store.ErrUnavailable]; 0 is 10 seconds.
	Wait time.Duration
	// Waiting, if not nil, is called when a call has waited for a second because
	// another process has a write transaction open, once for every such wait. The
	// one goroutine that writes calls it, while others go on; it must return quickly.
	Waiting func()
	// Now is the store's clock, for tests; nil is time.Now.
	Now func() time.Time
}

// Store keeps messages in a file. Make one with [Open]. It is safe for
// concurrent use, and so is the file for several stores and processes.
type Store struct {
	*core
	*inspector
	*letters
	*registry
	*side
	*migrator
}

// core carries messages: it reads, and hands what is to be written to the writer.
type core struct {
	cfg         Config
	description store.Description
	// testClock: time may jump, unnoticed by timers.
	testClock bool

	readers *sql.DB
	lookups *lookups
	writer  *writer
	calls   chan *call
	closing chan struct{} // closed: no more calls
	stopped chan struct{} // closed: the writer has ended
	closer  sync.Once
	ended   error // of Close

	path    string // absolute, without symbolic links: beside it are the log and the shared memory
	files   identity
	library string // for SQLite, of this package
	listen  listening
	meter   bound.Meter
	removed sqlstore.Removed
}

// Open opens the store in a file and brings its schema up to date. The context
// bounds the opening only.
func Open(ctx context.Context, c Config) (*Store, error) {
	base := &core{
		description: Description(),
		cfg:         c,
		calls:       make(chan *call, maxGroup), closing: make(chan struct{}), stopped: make(chan struct{}),
		testClock: c.Now != nil,
	}
	looks := &inspector{base}
	s := &Store{base, looks, &letters{base, looks}, &registry{base}, newSide(base, looks), &migrator{base}}
	s.cfg.Synchronous = cmp.Or(c.Synchronous, Full)
	s.description.Durability = string(s.cfg.Synchronous) + ": " + durability[s.cfg.Synchronous]
	s.cfg.Cache = cmp.Or(c.Cache, 16_000)
	s.cfg.Wait = cmp.Or(c.Wait, 10*time.Second)
	if c.Now == nil {
		s.cfg.Now = time.Now
	}
	if c.Waiting == nil {
		s.cfg.Waiting = func() {}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, wrap("open "+c.Path, err)
	}
	return s, nil
}

func (c *Config) refuse(code error, why, hint string) error {
	return &store.Error{Op: strings.TrimSpace("open " + c.Path), Code: code, Err: errors.New(why), Hint: hint}
}

// Check reports what is wrong with a configuration, as far as that shows without its file.
func (c *Config) Check() error {
	switch {
	case c.Synchronous != "" && durability[c.Synchronous] == "":
		return c.refuse(store.ErrInvalid, fmt.Sprintf("synchronous is %q", c.Synchronous), "use FULL, NORMAL or EXTRA")
	case c.Cache < 0:
		return c.refuse(store.ErrInvalid, fmt.Sprintf("cache is %d", c.Cache), "give the cache in KiB, or 0 for 16,000")
	case c.Path == "" || c.Path == ":memory:":
		return c.refuse(store.ErrInvalid, "no path of a file",
			"give the path of a file; for messages that need not survive there is store/memory")
	}
	return nil
}

// check refuses configurations for which SQLite's own errors would be less clear.
func (s *core) check() error {
	if err := s.cfg.Check(); err != nil {
		return err
	}
	refuse := s.cfg.refuse
	info, err := os.Stat(s.cfg.Path)
	switch {
	case err == nil && info.IsDir():
		return refuse(store.ErrInvalid, "it is a folder", "give the path of a file in it, such as "+
			filepath.Join(s.cfg.Path, "pawl.db"))
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return refuse(store.ErrDenied, err.Error(), "this user needs access to the folder")
	}
	folder := filepath.Dir(s.cfg.Path)
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		return refuse(store.ErrNotFound, "there is no folder "+folder, "create it: mkdir -p "+folder)
	}
	if s.cfg.ReadOnly {
		return refuse(store.ErrNotFound, "there is no such file", "open it for writing once, or correct the path")
	}
	return nil
}

// open connects, migrates and starts the writer.
func (s *Store) open(ctx context.Context) (err error) {
	// A process may change its folder while the store is open.
	if s.path, err = filepath.Abs(s.cfg.Path); err != nil {
		return err
	}
	mode := "mode=rw&_query_only=1"
	if s.cfg.ReadOnly {
		mode = "mode=ro"
	} else if err := s.startWriter(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	file := dsn(s.path, mode+fmt.Sprintf("&_busy_timeout=%d", s.cfg.Wait.Milliseconds()))
	s.lookups = newLookups(file)
	connector, err := driversqlite.NewConnector(file)
	if err != nil {
		return err
	}
	s.readers = sql.OpenDB(connector)
	s.readers.SetMaxOpenConns(4)
	s.readers.SetMaxIdleConns(2)
	if s.cfg.ReadOnly {
		close(s.stopped)
		return s.checkSchema(ctx)
	}
	return nil
}

// makePrivate creates a file that is not there yet for its owner only: bodies may hold secrets. SQLite gives its
// journal the same mode. A file that is there keeps its mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil // it is there; or SQLite says in its own words why it cannot be made
	}
	return f.Close()
}

// startWriter opens the connection that writes.
func (s *core) startWriter(ctx context.Context) error {
	if err := makePrivate(s.cfg.Path); err != nil {
		return err
	}
	c, err := connect(ctx, dsn(s.path, fmt.Sprintf("mode=rwc&_busy_timeout=%d", s.cfg.Wait.Milliseconds())))
	if err != nil {
		return err
	}
	named := s.path
	if target, err := filepath.EvalSymlinks(named); err == nil {
		s.path = target
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); isMount(string(mounts), s.path) {
		_ = c.close()
		return s.cfg.refuse(store.ErrUnsupported, "the file is mounted, and its folder is not",
			"mount the folder: beside the file are -wal, which has what was stored last, and -shm, which processes share")
	}
	w := &writer{core: s, conn: c, topics: &topicCache{}, queue: openQueue(s.path)}
	opening := &call{}
	w.group = []*call{opening}
	defer context.AfterFunc(ctx, func() { opening.state.Store(abandoned) })()
	failed := w.prepare(ctx)
	s.files.note(named, s.path)
	if failed == nil {
		if err := s.files.check(); errors.Is(err, ErrOtherLibrary) {
			w.queue.close()
			return err // the connection stays open: to close it would end the locks of the other library
		}
	}
	if s.files.inside.openElsewhere() {
		failed = s.cfg.refuse(store.ErrUnsupported, "the file is open by another name that it has, a hard link",
			"open it by one name everywhere: each name has a -wal of its own, which has what was stored last")
	}
	if failed == nil {
		failed = w.learnLibrary()
	}
	if failed != nil {
		w.queue.close()
		_ = c.close()
		if isBusy(failed) && ctx.Err() != nil {
			return ended(ctx, "open "+s.cfg.Path)
		}
		return failed
	}
	s.writer = w
	go w.run()
	return nil
}

// isMount reports whether a path is one of the mounts that Linux lists.
func isMount(mounts, path string) bool {
	path = strings.NewReplacer("\\", `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(mounts) {
		if columns := strings.Fields(line); len(columns) > 4 && columns[4] == path {
			return true
		}
	}
	return false
}

// prepare sets the connection up and migrates.
func (w *writer) prepare(ctx context.Context) error {
	mode, err := w.writeAhead(ctx)
	if err != nil {
		return err
	}
	if mode != "wal" {
		return &store.Error{
			Op: "open " + w.cfg.Path, Code: store.ErrUnsupported, Err: fmt.Errorf("the journal mode stays %q", mode),
			Hint: "put the file on a local disk: a write-ahead log needs shared memory, which network file systems lack",
		}
	}
	for _, pragma := range []string{
		"PRAGMA synchronous = " + string(w.cfg.Synchronous),
		fmt.Sprintf("PRAGMA cache_size = %d", -w.cfg.Cache), // negative: in KiB
		"PRAGMA journal_size_limit = 64000000",              // of a log that a reader made long
		"PRAGMA wal_autocheckpoint = 1000",
	} {
		if err := w.conn.script(pragma); err != nil {
			return err
		}
	}
	// From here on the writer waits for the lock itself: in the queue, and in smaller
	// steps than SQLite's.
	if err := w.conn.script("PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	_, err = w.migrateUp()
	return err
}

// writeAhead makes the file a write-ahead log, if it is none, and returns the mode that it
// is in. Where two do so with a new file at once, SQLite tells one of them at once that
// the file is locked, without waiting: each could wait for the other.
func (w *writer) writeAhead(ctx context.Context) (mode string, err error) {
	for end := time.Now().Add(w.cfg.Wait); ; {
		err = w.conn.query("PRAGMA journal_mode = WAL", func(r row) error {
			mode = r.text(0)
			return nil
		})
		if !isBusy(err) || time.Now().After(end) {
			return mode, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return mode, err
		}
	}
}

// Close implements [store.Store]. Calls under way are finished.
func (s *core) Close() error {
	s.closer.Do(func() {
		close(s.closing)
		s.listen.close()
		if s.lookups != nil {
			s.lookups.close()
		}
		if s.readers != nil {
			s.ended = s.readers.Close()
		}
		if w := s.writer; w != nil {
			<-s.stopped
			if !s.files.lost.Load() && !s.files.shared.Load() {
				// Else the last to close would write its log into what is there now.
				s.ended = errors.Join(s.ended, w.conn.close())
			}
			w.queue.close()
		}
		s.ended = wrap("close", s.ended)
	})
	return s.ended
}

// usable refuses a call whose context is over, that comes after Close, or whose file was replaced.
func (s *core) usable(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return ended(ctx, op)
	}
	if s.isClosing() {
		return closed(op)
	}
	return s.files.checkSeldom()
}

func (s *core) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// read runs do on a snapshot, after what is due has happened.
func (s *core) read(ctx context.Context, op string, do func(*work) error) error {
	if err := s.usable(ctx, op); err != nil {
		return err
	}
	for range maxSweeps {
		due := false
		err := s.snapshot(ctx, func(k *work) error {
			if due = k.due() && !s.cfg.ReadOnly; due {
				return nil
			}
			return do(k)
		})
		if err != nil || !due {
			return s.readError(ctx, op, err)
		}
		// A reader does not wait for another process's transaction.
		brief, cancel := context.WithTimeout(ctx, sweepWait)
		err = s.write(brief, &call{op: op, phase: toManage, do: (*work).sweep})
		cancel()
		if err != nil {
			break
		}
	}
	return s.readError(ctx, op, s.snapshot(ctx, do))
}

const (
	// maxSweeps bounds how many sweeps a reader runs first.
	maxSweeps = 100
	// sweepWait is how long it waits for its turn to.
	sweepWait = 300 * time.Millisecond
)

// snapshot runs do in a read transaction.
func (s *core) snapshot(ctx context.Context, do func(*work) error) error {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	db := newTxSession(ctx, tx)
	defer db.close()
	k, err := s.work(db, &topicCache{})
	if err != nil {
		return err
	}
	return do(k)
}

// readError tells a context that ended and a store that was closed meanwhile
// from what else can be wrong.
func (s *core) readError(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if gone := s.usable(ctx, op); gone != nil {
		return gone
	}
	return wrap(op, err)
}
