package logs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/observe/logs"
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
		s := logs.NewPipe("stdout", reader)
		line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
		for range 10 {
			if n, err := s.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if full := s.Figures().Dropped["full"]; full != 6 {
			t.Errorf("%d writes dropped, want 6 of 10 with room for 4", full)
		}
		close(reader.free)
		synctest.Wait()
		_, _ = s.Write([]byte("after\n"))
		s.Close()
		if !strings.HasSuffix(reader.out.String(), "\n6 lines were dropped here: their reader was slow\nafter\n") {
			t.Error("the reader is not told of the gap")
		}
	})
}

func TestEverythingIsPassedOnBeforeClose(t *testing.T) {
	var out bytes.Buffer
	s := logs.NewPipe("stdout", &out)
	for range 1000 {
		_, _ = s.Write([]byte("line\n"))
	}
	s.Close()
	if got := strings.Count(out.String(), "line\n"); got != 1000 {
		t.Errorf("%d lines of 1000", got)
	}
	_, _ = s.Write([]byte("late\n"))
	if f := s.Figures(); f.Written != 1000 || len(f.Dropped) != 1 || f.Dropped["closed"] != 1 {
		t.Errorf("%+v, want 1000 written and the late one dropped", f)
	}
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("closed pipe") }

func TestAReaderThatIsGoneIsCounted(t *testing.T) {
	s := logs.NewPipe("stdout", gone{})
	_, _ = s.Write([]byte("line\n"))
	s.Close()
	if f := s.Figures(); f.Dropped["failed"] != 1 {
		t.Errorf("%+v, want one that failed", f)
	}
	if _, err := s.Write([]byte("line\n")); err == nil {
		t.Error("whoever keeps writing does not learn that nobody reads")
	}
}
