package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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

func TestConfigReportsEverythingAtOnce(t *testing.T) {
	_, err := Open(t.Context(), Config{Schema: "No", MaxConns: 1, PollEvery: -1})
	for _, want := range []string{"no URL", `schema "No"`, "1 connections", "poll every -1ns"} {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}
