//go:build linux

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// site is a store that nobody else uses.
type site struct {
	name string // sqlite or postgres
	url  string
	dir  string // for files of the test
}

// onEachStore runs a test on every store that can be had.
func onEachStore(t *testing.T, do func(t *testing.T, s *site)) {
	t.Run("SQLite", func(t *testing.T) { do(t, sqliteSite(t)) })
	t.Run("Postgres", func(t *testing.T) { do(t, postgresSite(t)) })
}

func sqliteSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{name: "sqlite", url: "sqlite:" + filepath.Join(dir, "pawl.db"), dir: dir}
	s.must(t, "migrate", "up") // commands that look refuse a store that is not there
	return s
}

// postgresSite makes a database of its own and migrates it.
func postgresSite(t *testing.T) *site {
	t.Helper()
	server := os.Getenv("PAWL_TEST_POSTGRES")
	if server == "" {
		if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set; dev/services run -- go test …")
	}
	s := &site{name: "postgres", url: makeDatabase(t, server), dir: t.TempDir()}
	s.must(t, "migrate", "up")
	return s
}

// makeDatabase creates a database on a server, and drops it after the test.
func makeDatabase(t *testing.T, server string) string {
	t.Helper()
	name := fmt.Sprintf("pawl_crash_%d_%d", os.Getpid(), time.Now().UnixNano())
	execute := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return errors.New("connect to PAWL_TEST_POSTGRES") // the error may hold the password
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := execute(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err := execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		for autovacuumRuns(err) && ctx.Err() == nil {
			// A plain DROP cancels autovacuum, but is refused while others are connected.
			if err = execute(ctx, "DROP DATABASE "+name); err != nil {
				err = execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("PAWL_TEST_POSTGRES is not a URL")
	}
	u.Path = "/" + name
	return u.String()
}

// autovacuumRuns says whether a database was not dropped because autovacuum is at work in it,
// which an ordinary user may not end.
func autovacuumRuns(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "42501" // insufficient_privilege
}

// env is the environment of a command on this store.
func (s *site) env() []string { return []string{"PAWL_STORE=" + s.url} }

// result is what a command that ended left.
type result struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d after %v\nstdout: %.2000s\nstderr: %.4000s", r.code,
		r.took.Round(time.Millisecond), r.stdout, r.stderr)
}

// run runs a command to its end, for a minute at most.
func (s *site) run(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	return command(t, s.env(), stdin, args...)
}

// command runs the binary under test to its end, for a minute at most, see [patience].
func command(t *testing.T, env []string, stdin io.Reader, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience(time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv(envPawl), args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = t.TempDir() // where a default store would come to be
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v did not end within %v; stderr: %s", args, patience(time.Minute), stderr.String())
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

// must runs a command that must succeed.
func (s *site) must(t *testing.T, args ...string) result {
	t.Helper()
	return s.mustWith(t, nil, args...)
}

func (s *site) mustWith(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	r := s.run(t, stdin, args...)
	if r.code != 0 {
		t.Fatalf("%v: %v", args, r)
	}
	return r
}

// figures are a topic's, as `topics ls -o json` has them.
type figures struct {
	Topic         string
	Order         string
	Waiting       int64
	Delayed       int64
	Leased        int64
	Dead          int64
	AppendedTotal int64 `json:"appended_total"`
	AckedTotal    int64 `json:"acked_total"`
}

// open is how many messages are neither acked nor dead.
func (f figures) open() int64 { return f.Waiting + f.Delayed + f.Leased }

// topic returns the figures of one topic. Where the store does not answer now, it asks again for a while.
func (s *site) topic(t *testing.T, name string) figures {
	t.Helper()
	var r result
	within(10*time.Second, func() bool {
		r = s.run(t, nil, "topics", "ls", "-o", "json")
		return r.code != codeAway
	})
	if r.code != 0 {
		t.Fatalf("topics ls: %v", r)
	}
	var all []figures
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		t.Fatalf("topics ls -o json: %v\n%s", err, r.stdout)
	}
	for _, f := range all {
		if f.Topic == name {
			return f
		}
	}
	return figures{Topic: name}
}

// deadLetter is what `dead ls -o jsonl` says of one.
type deadLetter struct {
	ID, Key, Kind, Reason, Body string
	Attempts                    []struct{ Attempt int }
}

// dead lists a topic's dead letters.
func (s *site) dead(t *testing.T, topic string) []deadLetter {
	t.Helper()
	r := s.must(t, "dead", "ls", "--topic", topic, "-o", "jsonl")
	var all []deadLetter
	for line := range strings.Lines(r.stdout) {
		var d deadLetter
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("dead ls -o jsonl: %v\n%s", err, line)
		}
		all = append(all, d)
	}
	return all
}

// counted is how `send --jsonl` ends.
type counted struct{ Appended, Duplicates int }

// parseCounted reads the last line of what a send printed.
func parseCounted(stdout string) (c counted, err error) {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return c, json.Unmarshal([]byte(lines[len(lines)-1]), &c)
}

// pipeCommand is a worker for `work --pipe`. exec makes Pawl its parent.
func pipeCommand(folder string, flags ...string) string {
	return "exec " + os.Getenv(envWorker) + " -journal " + folder + " " + strings.Join(flags, " ")
}
