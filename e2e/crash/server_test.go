//go:build linux

package crash

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a service of dev/services that is this test's own, to be broken.
type server struct {
	t        *testing.T
	script   string
	state    string
	settings []string // variables of its environment
}

// ownService starts one that no other test uses.
func ownService(t *testing.T, service string, settings ...string) *server {
	t.Helper()
	script := os.Getenv("PAWL_TEST_SERVICES")
	if script == "" {
		script, _ = filepath.Abs("../../dev/services")
	}
	v := &server{t: t, script: script, state: t.TempDir(), settings: settings}
	t.Cleanup(func() { v.do("clean") })
	v.do("up", service)
	return v
}

// address is a value that `dev/services env` prints.
func (v *server) address(name string) string {
	v.t.Helper()
	for line := range strings.Lines(v.do("env")) {
		if rest, ok := strings.CutPrefix(line, "export "+name+"="); ok {
			return strings.Trim(strings.TrimSpace(rest), "'")
		}
	}
	v.t.Fatalf("dev/services env says nothing of %s", name)
	return ""
}

// ownServer starts a PostgreSQL server that no other test uses.
func ownServer(t *testing.T) (*server, *site) {
	t.Helper()
	if os.Getenv("PAWL_TEST_POSTGRES") == "" {
		postgresSite(t) // skips or fails, with the reason
	}
	v := ownService(t, "postgres")
	dsn := v.address("PAWL_TEST_POSTGRES")
	s := &site{name: "postgres", url: makeDatabaseFor(t, dsn), dir: t.TempDir()}
	s.must(t, "migrate", "up")
	return v, s
}

// do runs dev/services on the server's state.
func (v *server) do(args ...string) string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience(2*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, v.script, args...)
	cmd.Env = append(append(os.Environ(), "PAWL_SERVICES_DIR="+v.state), v.settings...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		v.t.Errorf("dev/services %v: %v: %s", args, err, errs.String())
	}
	return out.String()
}

// makeDatabaseFor is a database on a server that ends with the test.
func makeDatabaseFor(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the server's URL cannot be read")
	}
	execute(t, dsn, "CREATE DATABASE pawl_crash")
	u.Path = "/pawl_crash"
	return u.String()
}

// execute runs a statement.
func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal("connect to the server: it does not answer") // the error may hold the password
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestServerGone breaks the server under workers and a producer, and mends it:
// everything goes on by itself, and nothing is lost.
func TestServerGone(t *testing.T) {
	beside(t, 100)
	v, s := ownServer(t)
	for name, c := range map[string]struct{ fault, repair string }{
		"stopped": {"stop", "start"}, "killed": {"kill", "start"}, "paused": {"pause", "continue"},
		"restarted": {"restart", ""},
	} {
		t.Run(name, func(t *testing.T) { serverGone(t, v, s, name, c.fault, c.repair) })
	}
	t.Run("not there", func(t *testing.T) {
		v.do("stop", "postgres")
		defer v.do("start", "postgres")
		for _, args := range [][]string{{"topics", "ls"}, {"work", "t", "--exec", "true"}, {"migrate", "status"}} {
			r := s.run(t, nil, args...)
			clearly(t, r, []int{codeAway})
			hides(t, r, password(t, s.url))
		}
	})
}

func serverGone(t *testing.T, v *server, s *site, topic, fault, repair string) {
	folder := t.TempDir()
	const messages = 6000
	worker := launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder, "-work", "2ms"),
		"--concurrency", "4", "--lease", "3s")
	source, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	producer := launch(t, s.env(), source, &out, "send", topic, "--jsonl")
	_ = source.Close() // the producer has it
	fed := make(chan error, 1)
	go func() {
		var err error
		for n := range messages {
			if _, err = fmt.Fprintf(feed, `{"id":"%s%d","key":"k%d","body":"x"}`+"\n", topic, n, n%50); err != nil {
				break
			}
			time.Sleep(time.Millisecond) // the rate
		}
		_ = feed.Close()
		fed <- err
	}()
	eventually(t, 20*time.Second, "work begins", func() bool { return len(started(t, folder)) > 300 })
	began := time.Now()
	v.do(fault, "postgres")
	if repair != "" {
		time.Sleep(2 * time.Second) // longer than a moment
		v.do(repair, "postgres")
	}
	down := time.Since(began)
	back, before := time.Now(), len(started(t, folder))
	if !within(30*time.Second, func() bool { return len(started(t, folder)) > before+50 }) {
		t.Errorf("no work within %v of the server's return; the worker says: %s", time.Since(back), worker.tail(2000))
	}
	recovered := time.Since(back)
	if code := producer.wait(t, time.Minute); code != 0 {
		t.Errorf("the producer ended with %d: %s", code, producer.tail(2000))
	}
	if err := <-fed; err != nil {
		t.Error("feed the producer:", err)
	}
	c, err := parseCounted(out.String())
	if err != nil || c.Appended+c.Duplicates != messages {
		t.Errorf("the producer counted %q, want %d", out.String(), messages)
	}
	if !worker.alive() {
		t.Fatalf("the worker ended: %s", worker.tail(2000))
	}
	if !within(90*time.Second, func() bool { // 6,000 messages, however busy the machine is
		time.Sleep(200 * time.Millisecond)
		return s.topic(t, topic).open() == 0
	}) {
		t.Errorf("not all is carried out: %+v", s.topic(t, topic))
	}
	f := s.topic(t, topic)
	if seen := len(started(t, folder)); f.Dead != 0 || f.AckedTotal != messages || seen != messages {
		t.Errorf("workers saw %d of %d: %+v", seen, messages, f)
	}
	hides(t, result{stderr: worker.tail(1 << 20)}, password(t, s.url))
	t.Logf("server %s for %v: work goes on %v after its return, %d of %d acked", topic,
		down.Round(100*time.Millisecond), recovered.Round(10*time.Millisecond), f.AckedTotal, messages)
}

// password is that of a URL.
func password(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the store's URL cannot be read")
	}
	p, _ := u.User.Password()
	return p
}

// hides looks for a secret in what was printed. User, database and schema are
// named like the password on a test server, so it is only looked for where one
// stands.
func hides(t *testing.T, r result, secret string) {
	t.Helper()
	for _, form := range []string{":" + secret + "@", "password=" + secret} {
		if strings.Contains(r.stdout+r.stderr, form) {
			t.Errorf("%q was printed: %v", form, r)
		}
	}
}

// TestWrongDSN tries URLs that lead nowhere, with a password that must never be
// seen.
func TestWrongDSN(t *testing.T) {
	beside(t, 10)
	s := postgresSite(t)
	right, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "Tr0ub4dor&3/x@y z"
	with := func(change func(u *url.URL)) string {
		u := *right
		u.User = url.UserPassword(u.User.Username(), secret)
		change(&u)
		return u.String()
	}
	for name, c := range map[string]struct {
		url   string
		codes []int
	}{
		"password": {with(func(*url.URL) {}), []int{codeForbidden}},
		"user":     {with(func(u *url.URL) { u.User = url.UserPassword("nobody_here", secret) }), []int{codeForbidden}},
		"database": {strings.Replace(s.url, right.Path, "/no_such_database", 1), []int{codeFailure, 6, codeForbidden}},
		"port":     {with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), []int{codeAway}},
		"host":     {with(func(u *url.URL) { u.Host = "no-such-host.invalid:5432" }), []int{codeAway}},
		"option":   {with(func(u *url.URL) { u.RawQuery = "sslmode=sideways" }), []int{codeUsage}},
		"raw":      {"postgres://pawl:Tr0ub4dor&3/x@y z@127.0.0.1:1/x", []int{codeFailure, codeUsage}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := &site{url: c.url}
			for _, args := range [][]string{{"topics", "ls"}, {"send", "t", "x"}, {"work", "t", "--exec", "true"},
				{"migrate", "up"}, {"migrate", "status"}} {
				if name == "port" && args[0] == "send" || name == "host" && args[0] == "send" {
					continue // it goes on trying for minutes, and says so
				}
				r := bad.run(t, nil, args...)
				clearly(t, r, c.codes)
				for _, part := range []string{"Tr0ub4dor", "y%20z", "3/x@y", url.QueryEscape(secret),
					url.PathEscape(secret)} {
					if strings.Contains(r.stdout+r.stderr, part) {
						t.Errorf("%v shows the password: %v", args, r)
					}
				}
				if r.took > 20*time.Second {
					t.Errorf("%v took %v", args, r.took)
				}
			}
		})
	}
}

// TestMissingTables uses a database without a schema, and one from which a table
// was dropped.
func TestMissingTables(t *testing.T) {
	beside(t, 10)
	s := postgresSite(t)
	s.must(t, "send", "t", "x")
	s.must(t, "migrate", "down", "--to", "0", "--yes")
	for _, args := range [][]string{{"topics", "ls"}, {"send", "t", "x"}, {"work", "t", "--exec", "true"},
		{"messages", "ls"}} {
		clearly(t, s.run(t, nil, args...), []int{codeConflict}, "migrate up")
	}
	s.must(t, "send", "t", "x", "--auto-migrate")
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal("the server does not answer")
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(),
		"SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		if _, err := conn.Exec(t.Context(), "DROP TABLE "+table+" CASCADE"); err != nil {
			continue // a partition that went with its parent
		}
		for _, args := range [][]string{{"topics", "ls"}, {"send", "t", "x"}} {
			if r := s.run(t, nil, args...); r.code != 0 {
				clearly(t, r, []int{codeConflict, codeFailure})
			}
		}
	}
}
