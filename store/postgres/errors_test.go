package postgres

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestPoolerIsRecognised by what only a shared session says.
func TestPoolerIsRecognised(t *testing.T) {
	for state, code := range map[string]error{stateNamedTwice: store.ErrUnsupported,
		stateNotNamed: store.ErrUnavailable} {
		err := explain("append", "pawl", "", &pgconn.PgError{Severity: "ERROR", Code: state,
			Message: "prepared statement"})
		e, ok := errors.AsType[*store.Error](err)
		if !ok || !errors.Is(err, code) || !strings.Contains(e.Hint, "pawl_poll_only=true") {
			t.Errorf("%s: %v, %+v", state, err, e)
		}
	}
}

// TestRootCauseComesFirst: not what the driver tried, and with which URL.
func TestRootCauseComesFirst(t *testing.T) {
	_, err := Open(t.Context(), Config{URL: "postgres://ann:correct-horse@127.0.0.1:1/d"})
	if err == nil || !strings.Contains(err.Error(), "open postgres: store is not reachable: dial tcp 127.0.0.1:1: ") ||
		!errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestMissingSchemaNamesAutoMigrate, which is what a Go program needs.
func TestMissingSchemaNamesAutoMigrate(t *testing.T) {
	err := explain("append", "pawl", "", &pgconn.PgError{Severity: "ERROR", Code: "42P01", Message: "no such relation"})
	if !errors.Is(err, store.ErrSchema) || !strings.Contains(store.Hint(err), "AutoMigrate in Go") {
		t.Errorf("%v: %q", err, store.Hint(err))
	}
}

// TestNewerSchema: a process that starts beside a newer schema says so, one that runs goes on.
func TestNewerSchema(t *testing.T) {
	at := server(t)
	s := open(t, Config{URL: at, Schema: freshSchema(t, at), AutoMigrate: true, NoChores: true})
	execute(t, application(t, at), "INSERT INTO "+s.cfg.Schema+".migration VALUES (99, 'future', now())")
	for _, migrate := range []bool{false, true} {
		_, err := Open(t.Context(), Config{URL: s.cfg.URL, Schema: s.cfg.Schema, AutoMigrate: migrate})
		if !errors.Is(err, store.ErrSchema) || !strings.Contains(store.Hint(err), "newer version") {
			t.Errorf("open: %v", err)
		}
	}
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"})); err != nil {
		t.Error(err)
	}
	steps, err := s.Migrations(t.Context())
	if err != nil || len(steps) < 2 || !steps[len(steps)-1].Newer || steps[0].Newer {
		t.Errorf("migrations: %+v, %v", steps, err)
	}
	for _, migrate := range []func() ([]store.Migration, error){
		func() ([]store.Migration, error) { return s.MigrateDown(t.Context(), 0) },
		func() ([]store.Migration, error) { return s.MigrateUp(t.Context()) },
	} {
		if done, err := migrate(); !errors.Is(err, store.ErrSchema) || len(done) > 0 {
			t.Errorf("migrate: %v, %v", done, err)
		}
	}
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Errorf("claim: %d messages, %v", len(ds), err)
	}
}

func TestConfigReportsEverythingAtOnce(t *testing.T) {
	_, err := Open(t.Context(), Config{Schema: "No", MaxConns: 1, PollEvery: -1})
	for _, want := range []string{"no URL", `schema "No"`, "1 connections", "poll every -1ns"} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// TestTLSFailuresNameWhatToChange, by their cause: they were a lost connection.
func TestTLSFailuresNameWhatToChange(t *testing.T) {
	signer := httptest.NewTLSServer(nil)
	t.Cleanup(signer.Close)
	roots := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signer.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		answer, host, options, want string
	}{
		{"S", "127.0.0.1", "sslmode=verify-full", "sslrootcert=FILE"},
		{"S", "localhost", "sslmode=verify-full&sslrootcert=" + roots, "sslmode=verify-ca"},
		{"S", "localhost", "sslmode=verify-full&sslrootcert=" + roots, "it states example.com"},
		{"N", "localhost", "sslmode=require", "sslmode=disable"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.ReadFull(conn, make([]byte, 8)) // SSLRequest
					_, _ = conn.Write([]byte(c.answer))
					if c.answer == "S" {
						_ = tls.Server(conn, signer.TLS).Handshake()
					}
					_ = conn.Close()
				}()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		_, err = Open(t.Context(), Config{URL: "postgres://ann@" + c.host + ":" + port + "/d?" + c.options})
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(store.Hint(err), c.want) {
			t.Errorf("%s: %v: %q", c.options, err, store.Hint(err))
		}
	}
}

// TestURLsNameWhatIsWrongWithTLS: the hint was how a URL looks.
func TestURLsNameWhatIsWrongWithTLS(t *testing.T) {
	for _, options := range []string{"sslmode=some", "sslmode=verify-full&sslrootcert=/none/ca.pem"} {
		_, err := Open(t.Context(), Config{URL: "postgres://ann@127.0.0.1:1/d?" + options})
		if hint := store.Hint(err); !errors.Is(err, store.ErrInvalid) || !strings.Contains(hint, "sslrootcert") {
			t.Errorf("%s: %v: %q", options, err, hint)
		}
	}
}

// TestServerThatHangsUp: the hint was to repeat the call with the same batch id, of which an open has none.
func TestServerThatHangsUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	_, err = Open(t.Context(), Config{URL: "postgres://ann@" + l.Addr().String() + "/d?sslmode=disable"})
	if hint := store.Hint(err); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(hint, "sslmode=require") {
		t.Errorf("%v: %q", err, hint)
	}
}

// TestUsersThatNeedTLS are told so by the server; the hint was to check the password.
func TestUsersThatNeedTLS(t *testing.T) {
	err := explain("open postgres", "pawl", "", &pgconn.PgError{Code: "28000",
		Message: `no pg_hba.conf entry for host "10.0.0.7", user "ann", database "d", no encryption`})
	if !strings.Contains(store.Hint(err), "sslmode=require") || !errors.Is(err, store.ErrDenied) {
		t.Errorf("%v: %q", err, store.Hint(err))
	}
}

// TestTooManyClientsNamesTheSetting of a URL, which is what an operator has.
func TestTooManyClientsNamesTheSetting(t *testing.T) {
	err := explain("append", "pawl", "", &pgconn.PgError{Code: "53300", Message: "sorry, too many clients already"})
	if !strings.Contains(store.Hint(err), "pawl_max_conns=N in the URL") {
		t.Errorf("%q", store.Hint(err))
	}
}
