package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

var errAway = &store.Error{Op: "open postgres", Code: store.ErrUnavailable, Err: errors.New("connection refused")}

func noEnv(string) string { return "" }

func TestAStoreThatIsAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, tries, began := &logBook{}, 0, time.Now()
		s, err := Await(t.Context(), nil, noEnv, slog.New(slog.NewTextHandler(logs, nil)), func() (store.Store, error) {
			if tries++; time.Since(began) < 11*time.Minute {
				return nil, errAway
			}
			return memory.New(memory.Config{}), nil
		})
		if err != nil || s == nil {
			t.Fatal(s, err)
		}
		if late := time.Since(began) - 11*time.Minute; late > maxAwait {
			t.Errorf("it was open %v after it could be", late)
		}
		if tries < 100 || tries > 150 {
			t.Errorf("%d tries in 11 minutes", tries)
		}
		if n := strings.Count(logs.String(), "level=WARN"); n != 3 {
			t.Errorf("%d warnings in 11 minutes, want one in five:\n%s", n, logs)
		}
	})
}

func TestWaitingForAStoreEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if s, err := Await(ctx, nil, noEnv, quiet, func() (store.Store, error) { return nil, errAway }); s != nil ||
			err != nil || time.Since(began) != time.Minute {
			t.Errorf("asked to end, it returned %v, %v after %v", s, err, time.Since(began))
		}
		wrong := &store.Error{Op: "open", Code: store.ErrSchema}
		if _, err := Await(t.Context(), nil, noEnv, quiet, func() (store.Store, error) {
			return nil,
				wrong
		}); !errors.Is(err, store.ErrSchema) || time.Since(began) != time.Minute {
			t.Errorf("what does not get better: %v after %v", err, time.Since(began))
		}
	})
}

// TestTheFrontIsThereBeforeTheStore: alive, and not ready.
func TestTheFrontIsThereBeforeTheStore(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	f, err := NewFront("127.0.0.1:0", quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	see := func(path string, status int, text string) {
		t.Helper()
		reply, err := http.Get("http://" + f.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if err != nil || reply.StatusCode != status || !strings.Contains(string(said), text) {
			t.Errorf("%s: %d %s (%v), want %d %s", path, reply.StatusCode, said, err, status, text)
		}
	}
	see("/readyz", http.StatusServiceUnavailable, "being opened")
	tries := 0
	_, err = Await(t.Context(), f, noEnv, quiet, func() (store.Store, error) {
		if tries++; tries == 1 {
			return nil, errAway
		}
		see("/livez", http.StatusOK, "ok")
		see("/readyz", http.StatusServiceUnavailable, "connection refused")
		see("/metrics", http.StatusServiceUnavailable, "not ready")
		return nil, os.ErrInvalid
	})
	if !errors.Is(err, os.ErrInvalid) {
		t.Fatal(err)
	}
	f.serve(http.NotFoundHandler())
	see("/readyz", http.StatusNotFound, "")
	if _, err := NewFront(f.Address(), quiet); !errors.Is(err, ErrListen) {
		t.Errorf("the address is taken: %v", err)
	}
	if off, err := NewFront(config.Off, quiet); off != nil || err != nil || off.Address() != "" {
		t.Errorf("off is %v, %v", off, err)
	}
}
