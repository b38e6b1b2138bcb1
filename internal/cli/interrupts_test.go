package cli

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// A signal to the process and one to its group are one request to end; the next
// one, whenever it comes, is the second.
func TestSignalsAtOnceAreOneRequest(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		after []time.Duration
		want  bool // of the last one
	}{
		{[]time.Duration{0}, false},
		{[]time.Duration{0, 2 * time.Millisecond, oneRequest}, false},
		{[]time.Duration{0, oneRequest + 1}, true},
		{[]time.Duration{0, 2 * time.Millisecond, time.Hour}, true},
	} {
		asked, last := interrupts{}, false
		for _, d := range c.after {
			last = asked.again(now.Add(d))
		}
		if last != c.want {
			t.Errorf("after %v: %v", c.after, last)
		}
	}
}

// TestWorkThatIsStoppedBeforeItsStoreAnswers ends well, as pawl up does: it was asked to. It may not have emptied a
// topic.
func TestWorkThatIsStoppedBeforeItsStoreAnswers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for flag, want := range map[string]int{"--quiet=false": exitOK, "--until-empty": exitUnfinished} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(ErrInterrupted) })
		out := &bytes.Buffer{}
		args := []string{"work", "mail", "--exec", "cat", flag, "--store", "kafka://" + silent.Addr().String()}
		code := Run(ctx, "test", args,
			System{In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" }})
		if code != want || !strings.Contains(out.String(), "stopped before the store could be reached") {
			t.Errorf("%s: ended with %d\n%s", flag, code, out)
		}
	}
}
