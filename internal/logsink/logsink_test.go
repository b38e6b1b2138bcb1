package logsink_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/logsink"
)

// stuck is a reader that takes nothing until it is let go.
type stuck struct {
	free chan struct{}
	out  bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.out.Write(p)
}

func TestAStuckReaderHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &stuck{free: make(chan struct{})}
		s := logsink.New(reader)
		line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
		for range 10 {
			if n, err := s.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if full, _ := s.Dropped(); full != 6 {
			t.Errorf("%d writes dropped, want 6 of 10 with room for 4", full)
		}
		began := time.Now()
		s.Close() // returns although nothing is read
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close took %v", took)
		}
		close(reader.free)
		synctest.Wait()
		if !strings.Contains(reader.out.String(), "6 lines were dropped here") {
			t.Error("the reader is not told of the gap")
		}
	})
}

func TestEverythingIsPassedOnBeforeClose(t *testing.T) {
	var out bytes.Buffer
	s := logsink.New(&out)
	for range 1000 {
		_, _ = s.Write([]byte("line\n"))
	}
	s.Close()
	if got := strings.Count(out.String(), "line\n"); got != 1000 {
		t.Errorf("%d lines of 1000", got)
	}
	_, _ = s.Write([]byte("late\n"))
	if full, failed := s.Dropped(); full != 0 || failed != 1 {
		t.Errorf("dropped %d and %d, want none and the late one", full, failed)
	}
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("closed pipe") }

func TestAReaderThatIsGoneIsCounted(t *testing.T) {
	s := logsink.New(gone{})
	_, _ = s.Write([]byte("line\n"))
	s.Close()
	if _, failed := s.Dropped(); failed != 1 {
		t.Errorf("%d counted, want 1", failed)
	}
}
