package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSoakGoesOn: an interrupted soak carries out what is left, and a failure is in the report and in the verdict.
func TestSoakGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ran := soak{total: 25 * time.Minute, each: 10 * time.Minute, folder: t.TempDir()}, []string{}
		ctx, interrupt := context.WithCancel(t.Context())
		verdict := "pass"
		s.test = func(ctx context.Context, tests string, length time.Duration, read func(io.Reader) error) error {
			ran = append(ran, tests+" "+length.String())
			if len(ran) == 5 {
				interrupt()
				return errors.New("killed")
			}
			time.Sleep(length)
			return read(strings.NewReader(`{"Action":"output","Test":"T","Output":` +
				`"    t_test.go:5: 7 messages, 3 kills, 2 stops: lost 0, out of order 1\n"}
{"Action":"` + verdict + `","Test":"T"}
`))
		}
		if _, err := s.run(ctx); err == nil {
			t.Fatal("an interruption is no error")
		}
		verdict = "fail"
		failed, err := s.run(t.Context())
		if err != nil || !failed {
			t.Errorf("failed %v, %v", failed, err)
		}
		// Four rounds, one that was interrupted, and the five that were left: 10 and 5 minutes, as each store needs.
		if len(ran) != 10 || !strings.HasSuffix(ran[9], " 5m0s") {
			t.Errorf("rounds %q", ran)
		}
		text, err := os.ReadFile(filepath.Join(s.folder, "soak.md"))
		const sums = "| SQLite | 3 | 0.42 | 2 | T | 21 | 9 | 6 | 0 | 0 | 3 | 0 |"
		if err != nil || !strings.Contains(string(text), sums) || !strings.Contains(string(text), "```text\n    t_test.go:5: 7 ") {
			t.Errorf("the report: %v\n%s", err, text)
		}
	})
}
